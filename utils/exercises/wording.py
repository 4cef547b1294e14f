"""How tensors, shapes and whatever a function returned are put into words for the reader."""

import re

import numpy as np
import torch

LARGEST_WHOLE = 2**53  # whole numbers beyond it are not all there in a float64


def numbers(value, digits=3):
    """The numbers of a tensor as lines of text, with so many decimals, the batch axis of a single sample left out.

    A function is told by its docstring, anything else as Python writes it.
    """
    if not isinstance(value, torch.Tensor):
        return value.__doc__ if callable(value) else repr(value)
    array = (value.float() if value.dtype == torch.bfloat16 else value).detach().numpy()
    if array.ndim in (3, 4) and len(array) == 1:
        array = array[0]
    if array.dtype == bool or (np.isfinite(array) & (array == np.round(array)) & (abs(array) < LARGEST_WHOLE)).all():
        array = array.astype(int)
    # numpy puts an empty line between matrices and two between blocks of them; the brackets tell as much.
    return re.sub(r"\n+", "\n", np.array2string(array, precision=digits, suppress_small=digits == 3, separator=", "))


def side_by_side(name, expected, got):
    """The numbers of two tensors beside each other, under a name, with as many decimals as tell them apart."""
    for digits in (3, 6, 9, 17):
        left, right = numbers(expected, digits).split("\n"), numbers(got, digits).split("\n")
        if left != right:
            break
    rows = max(len(left), len(right))
    left, right = (lines + [""] * (rows - len(lines)) for lines in (left, right))
    width = max(map(len, [*left, "expected"])) + 4
    lines = [f"{'expected':<{width}}got"] + [f"{a:<{width}}{b}" for a, b in zip(left, right, strict=True)]
    return f"{name}\n" + "\n".join("  " + line.rstrip() for line in lines)


def named_sizes(sizes):
    """Named dimensions with their lengths: B=2, T_q=3."""
    return ", ".join(f"{name}={length}" for name, length in sizes.items())


def describe(name, value, sizes):
    """An argument in a few words: a tensor by its named dimensions, a function as one, anything else by its value."""
    if isinstance(value, torch.Tensor):
        return f"{name} {dimensions(value.shape, sizes)}"
    return f"{name}, a function" if callable(value) else f"{name}={value!r}"


def dimensions(shape, sizes, names=None):
    """A shape in named dimensions, each with its length: (B=2, T_q=3)."""
    if not shape:
        return "a single number"
    if names and "..." not in names and len(names.split()) == len(shape):
        named = names.split()
    else:
        by_length = {}
        for name, length in sizes.items():
            by_length.setdefault(length, name)
        named = [by_length.get(length) for length in shape]
    parts = [f"{n}={length}" if n and n != str(length) else str(length) for n, length in zip(named, shape, strict=True)]
    return f"({', '.join(parts)})"


def kind_of(returned):
    """What came back, in a few words."""
    if isinstance(returned, torch.Tensor):
        return f"one tensor of shape {tuple(returned.shape)}"
    if isinstance(returned, (tuple, list)):
        return f"{counted(len(returned), 'thing')}: {', '.join(type(part).__name__ for part in returned)}"
    return with_article(type(returned))


def with_article(kind):
    """The name of a type with its article."""
    return f"{'an' if kind.__name__[0] in 'aeiouAEIOU' else 'a'} {kind.__name__}"


def counted(number, thing):
    """So many of a thing: "1 thing", "2 things"."""
    return f"{number} {thing}{'' if number == 1 else 's'}"


def capitalised(name):
    """A name as a sentence begins, unless it begins with a name of the code."""
    first = name.split()[0]
    return name if "_" in first or "(" in first else name[0].upper() + name[1:]
