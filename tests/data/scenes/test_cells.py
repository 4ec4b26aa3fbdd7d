"""What is in each cell, against the shapes themselves."""

import numpy as np
import pytest
import torch

from omegamax.data.scenes import Cells, Scenes

SCENES = Scenes(12, image_size=64)


@pytest.mark.parametrize("grid", [(4, 4), (8, 4), (1, 1)])
def test_labels_are_those_of_the_thing_that_covers_most(grid):
    cells = Cells(SCENES, grid)
    assert len(cells) == 12
    for index in range(12):
        sample, scene = cells[index], SCENES.ask(index).scene
        picture, masks = scene.draw()
        assert torch.equal(sample["image"], SCENES[index].image)
        h, w = 64 // grid[0], 64 // grid[1]
        for row in range(grid[0]):
            for column in range(grid[1]):
                cover = masks[:, row * h : (row + 1) * h, column * w : (column + 1) * w].mean((1, 2))
                best = int(np.argmax(cover))
                shape, colour = int(sample["shape"][row, column]), int(sample["colour"][row, column])
                if cover[best] < 0.2:
                    assert shape == colour == 0
                elif (cover == cover[best]).sum() == 1:
                    thing = scene.things[best]
                    assert SCENES.shapes[shape - 1] == thing.shape and SCENES.colours[colour - 1] == thing.colour
        assert picture.shape == (64, 64, 3)


def test_most_things_are_in_some_cell():
    cells = Cells(SCENES, (8, 8))
    found = sum(len(set(cells[i]["shape"].unique().tolist()) - {0}) for i in range(12))
    there = sum(len({thing.shape for thing in SCENES.ask(i).scene.things}) for i in range(12))
    assert found >= 0.9 * there
