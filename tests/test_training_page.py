"""What a training run leaves on the page, in a real kernel: the bar, or the sentence that stands for it."""

import nbformat
import pytest
from lessons import ROOT
from nbclient import NotebookClient

LIVE = "application/vnd.jupyter.widget-view+json"

CELLS = [
    """
import os
import torch
from torch import nn
from utils.training import train

def batch_loss(model, batch):
    if batch == "interrupt":
        raise KeyboardInterrupt
    return model(torch.ones(1, 2)).sum()
""",
    'losses = train(nn.Linear(2, 1), [None], 30, 0.1, "GRU, no attention", batch_loss)',
    """
try:
    train(nn.Linear(2, 1), [None, "interrupt"], 30, 0.1, "broken", batch_loss)
except KeyboardInterrupt:
    print("interrupted")
""",
    """
os.environ["COLAB_RELEASE_TAG"] = "release"
losses = train(nn.Linear(2, 1), [None], 30, 0.1, "Colab", batch_loss)
""",
]


@pytest.fixture(scope="module")
def outputs():
    """What each of the CELLS puts out in a kernel, run as tools/execute.py runs a notebook."""
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in CELLS])
    client = NotebookClient(
        notebook, timeout=120, kernel_name="python3", store_widget_state=False, coalesce_streams=True
    )
    client.execute(cwd=str(ROOT))
    return [cell.outputs for cell in notebook.cells]


def test_a_page_without_a_kernel_has_a_sentence_for_the_bar(outputs):
    assert outputs[0] == []
    (shown,) = outputs[1]  # and nothing on stdout or stderr
    assert shown.output_type == "display_data"
    assert shown.data.keys() == {LIVE, "text/plain"}
    assert shown.data["text/plain"] == "Training GRU, no attention: 30 steps."


def test_a_run_that_is_interrupted_leaves_the_same_sentence(outputs):
    assert sorted(output.output_type for output in outputs[2]) == ["display_data", "stream"]
    for output in outputs[2]:
        if output.output_type == "stream":
            assert (output.name, output.text) == ("stdout", "interrupted\n")
        else:
            assert output.data["text/plain"] == "Training broken: 30 steps."


def test_colab_gets_the_widget_alone(outputs):
    (shown,) = outputs[3]
    assert shown.data.keys() == {LIVE, "text/plain"}
    assert "Training Colab" not in shown.data["text/plain"]
    assert "Colab:" in shown.data["text/plain"]  # the widget's own text, as `display` sends it
