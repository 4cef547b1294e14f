"""Answers that are classes: an `nn.Module` is built, its layers are given known weights, and it is run."""

import functools
import inspect

import torch
from torch import nn

from utils.exercises.exercise import Unfit
from utils.exercises.wording import with_article


def refuse(exercise_id, answer):
    """What to tell a reader whose answer is not a class of modules; None where it is one."""
    if isinstance(answer, nn.Module):
        return (
            f"**Not a class.** `check` was given {with_article(type(answer))} that is built already. Give it the class "
            f"itself, without calling it: `check({exercise_id!r}, {type(answer).__name__})`."
        )
    if not isinstance(answer, type):
        return (
            f"**Not a class.** `check` was given {with_article(type(answer))}. This exercise asks for a class, an "
            "`nn.Module` with `__init__` and `forward`: give `check` the class itself, without calling it."
        )
    if not issubclass(answer, nn.Module):
        return (
            f"**Not a module.** `{answer.__name__}` is a class but not an `nn.Module`, so it has no parameters to "
            f"learn. Does its first line read `class {answer.__name__}(nn.Module):`?"
        )
    for name in ("__init__", "forward"):
        if getattr(answer, name) is getattr(nn.Module, name):
            return (
                f"**No `{name}`.** `{answer.__name__}` has no method of that name. Is it spelt so, and indented so "
                "that it belongs to the class?"
            )
    return None


def runner(layers):
    """The `run` of an exercise that asks for a module with these layers.

    Args:
        layers: names of attributes, each to be an `nn.Linear(d_model, d_model)`.

    Returns:
        A function of a class. What that returns builds `cls(d_model, num_heads)` and calls its `forward`; it takes
        num_heads, projections (one matrix a layer, (d_model, d_model + 1), the last column its bias), query, key,
        value and mask, and raises Unfit where the class does not have these layers or takes other arguments.
    """

    def run(cls):
        @functools.wraps(cls.forward)  # so that an error is traced to the file of the reader
        def built_and_called(num_heads, projections, *inputs):
            d_model = projections.size(1)
            _must_take(f"{cls.__name__}(d_model, num_heads)", cls, d_model, num_heads)
            module = cls(d_model, num_heads).eval()
            _must_take(
                f"forward({', '.join(('query', 'key', 'value', 'mask')[: len(inputs)])})", module.forward, *inputs
            )
            has = dict(module.named_parameters(remove_duplicate=False))
            _must_have(module, has, layers, f"{cls.__name__}(d_model={d_model}, num_heads={num_heads})", d_model)
            known = {}
            for name, matrix in zip(layers, projections, strict=True):
                known |= {f"{name}.weight": matrix[:, :-1].contiguous(), f"{name}.bias": matrix[:, -1].contiguous()}
            return torch.func.functional_call(module, {name: known[name] for name in has}, inputs)

        return built_and_called

    return run


def _must_take(call, function, *arguments):
    """An Unfit unless a function can be called so."""
    try:
        inspect.signature(function).bind(*arguments)
    except TypeError as error:
        raise Unfit(
            f"**Other parameters than asked for.** The check calls `{call}`, and yours does not take that: {error}. Do "
            "the parameters stand there as the exercise gives them, `self` first and `mask` with its default `None`?"
        ) from None
    except ValueError:  # a function that does not say what it takes
        return


def _must_have(module, has, layers, call, d_model):
    """An Unfit unless a module has just these layers, with or without biases, each with parameters of its own."""
    wanted = {f"{name}.{part}": shape for name in layers for part, shape in _shapes(d_model).items()}
    weights = [name for name in wanted if name.endswith("weight")]
    if all(name in has for name in weights) and all(wanted.get(n) == tuple(p.shape) for n, p in has.items()):
        if len({id(has[name]) for name in weights}) < len(weights):
            raise Unfit(
                "**One layer under several names.** Your layers share their parameters, so that training one trains "
                "the others (`a = b = nn.Linear(...)` and `[nn.Linear(...)] * 4` build a single layer). How many times "
                "must `nn.Linear` be called?",
                "one layer under several names",
            )
        return
    names = ", ".join(f"`{name}`" for name in layers)
    asked = f"{names}, each an `nn.Linear(d_model, d_model)` that `__init__` puts on `self` under that name"
    hidden = [name for name in vars(module).keys() - vars(nn.Module()).keys() if _holds_layers(vars(module)[name])]
    if hidden:
        raise Unfit(
            f"**Projections in a plain list.** Python's own {type(getattr(module, hidden[0])).__name__} "
            f"`self.{hidden[0]}` hides the layers in it from `parameters()`: the optimiser sees {len(has)} parameters "
            f"of `{call}`, and those in it are never trained. Where does `nn.Module` look for layers? Asked for are "
            f"{asked}.",
            "projections in a plain list",
        )
    found = ", ".join(f"`{name}` {tuple(parameter.shape)}" for name, parameter in has.items()) or "none"
    raise Unfit(
        f"**Other layers than asked for.** Asked for are {asked}: with d_model={d_model} a weight of shape "
        f"({d_model}, {d_model}) and a bias of shape ({d_model},). The parameters of your `{call}` are {found}."
    )


def _shapes(d_model):
    return {"weight": (d_model, d_model), "bias": (d_model,)}


def _holds_layers(value):
    """Whether this is one of Python's own containers with layers or parameters in it."""
    inside = value.values() if isinstance(value, dict) else value if isinstance(value, (list, tuple)) else ()
    return any(isinstance(part, (nn.Module, nn.Parameter)) or _holds_layers(part) for part in inside)
