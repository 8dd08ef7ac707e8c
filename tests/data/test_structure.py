"""The shape of a batch: its columns by name."""

import torch

from instep.data.structure import named_columns


def test_columns_are_named_by_where_they_stand() -> None:
    batch = ({"pixels": torch.zeros(2, 3), "size": 7}, [torch.zeros(2), torch.zeros(2)])
    assert [name for name, _ in named_columns(batch)] == ["0['pixels']", "1[0]", "1[1]"]
    assert [name for name, _ in named_columns(torch.zeros(2))] == [""]
