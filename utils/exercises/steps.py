"""Steps that the mistakes of several topics put in the place of the right ones."""


def fill(value):
    """Block scores where the mask is False by writing `value` into them."""
    return lambda scores, mask: scores.masked_fill(~mask, value)


def keep(x, *unused):
    """Leave the step out."""
    return x


def exp_unshifted(scores, dim):
    """A softmax that does not subtract the maximum, and so overflows."""
    return scores.exp() / scores.exp().sum(dim, keepdim=True)


def renormalised(weights, mask):
    """Weights blocked after the softmax, and made to sum to 1 again."""
    return weights * mask / (weights * mask).sum(dim=-1, keepdim=True)
