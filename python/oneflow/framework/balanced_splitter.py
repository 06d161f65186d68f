"""How a dimension is cut into parts of nearly one size: the first parts take what is left over."""

from __future__ import annotations


def BalancedPartNums(total: int, part_size: int) -> list[int]:
    """The sizes of the parts.

    Example::

        >>> from oneflow.framework.balanced_splitter import BalancedPartNums
        >>> BalancedPartNums(7, 3)
        [3, 2, 2]
    """
    size, left = divmod(total, part_size)
    return [size + (i < left) for i in range(part_size)]


def BalancedRanges(total: int, part_size: int) -> list[list[int]]:
    """Begin and end of each part.

    Example::

        >>> from oneflow.framework.balanced_splitter import BalancedRanges
        >>> BalancedRanges(7, 3)
        [[0, 3], [3, 5], [5, 7]]
    """
    ranges = []
    begin = 0
    for n in BalancedPartNums(total, part_size):
        ranges.append([begin, begin + n])
        begin += n
    return ranges
