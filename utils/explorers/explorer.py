"""The one way to show an interactive figure."""

import base64
import html
import io

import ipywidgets as widgets
import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from PIL import Image

from utils.page import publish

PAGE_DPI = 96  # CSS pixels to the inch
PICTURE_DPI = 120  # a little sharper than the page; denser pictures take longer to make than 50 ms
LABEL = {"description_width": "90px"}  # the style of a control


class Explorer:
    """A figure that its reader moves: a question, controls, a picture, and a sentence on what is seen.

    Args:
        title: what the figure is, in a few words; becomes the alternative text of the picture.
        question: what to find out by moving the controls.
        draw: pure function of the controls' values, `draw(**values) -> (Figure, sentence)`. It may
            reuse one figure and set its data, as long as equal values give equal pictures.
        controls: by the name of its argument, each control: any widget with a `value` to observe.

    Attributes:
        box: the widget to display.
        png: the picture that is shown now, as bytes.
        sentence: the sentence below it.
        error: the exception that kept the last values from being drawn, or None.
    """

    def __init__(self, title, question, draw, **controls):
        self.title, self.question, self.controls, self.error = title, question, controls, None
        self._draw = draw
        self._picture = widgets.HTML()
        self._redraw()
        if self.error:
            raise self.error
        for control in controls.values():
            control.observe(lambda change: self._redraw(), names="value")
        heading = widgets.HTML(f"<b>{html.escape(title)}.</b> {html.escape(question)}")
        row = widgets.HBox(list(controls.values()), layout={"flex_flow": "row wrap", "align_items": "flex-end"})
        self.box = widgets.VBox([heading, row, self._picture])

    @property
    def values(self):
        """What the controls say now, by name."""
        return {name: control.value for name, control in self.controls.items()}

    def _redraw(self):
        """Draw for the present values; where that fails, keep the picture and say why below it."""
        try:
            figure, self.sentence = self._draw(**self.values)
            self.png = to_png(figure)
            self._width, self._height = (round(inches * PAGE_DPI) for inches in figure.get_size_inches())
            self.error = None
        except Exception as error:  # whatever the reader's own function raised
            self.error = error
        below = self.sentence if self.error is None else f"Not drawn: {self.error}"
        if not hasattr(self, "png"):
            return
        source = base64.b64encode(self.png).decode()
        self._picture.value = (
            f'<img width="{self._width}" height="{self._height}" alt="{html.escape(self.title)}" '
            f'style="max-width: 100%; height: auto" src="data:image/png;base64,{source}">'
            f'<p role="status">{html.escape(below)}</p>'
        )

    def show(self):
        """Display it: live with a kernel, a picture on a page without one, a sentence as plain text."""
        without_kernel = {
            "image/png": base64.b64encode(self.png).decode(),
            "text/plain": f"{self.title}: {self.sentence}",
        }
        publish(self.box, without_kernel, {"image/png": {"width": self._width, "height": self._height}})


def buttons_style(names):
    """The style of a row of buttons on which these names have room."""
    return {**LABEL, "button_width": f"{max(90, 24 + 8 * max(map(len, names)))}px"}


def new_figure(width, height, columns=1, **grid):
    """A figure for `draw` to reuse; it lives outside pyplot, so nobody need close it.

    Args:
        width, height: in inches; a page is about 8 inches wide.
        columns: number of axes side by side.
        grid: what `Figure.subplots` takes besides.

    Returns:
        The figure, and its axes or array of axes.
    """
    figure = Figure(figsize=(width, height), dpi=PICTURE_DPI)
    FigureCanvasAgg(figure)
    return figure, figure.subplots(1, columns, **grid)


def to_png(figure):
    """The picture of a figure as PNG bytes.

    What is not marked as moving (`artist.set_animated(True)`) is drawn once and kept, which is what
    makes a slider feel live: most of the time goes into axes, ticks and labels.
    """
    canvas = figure.canvas
    if not hasattr(figure, "course_still"):
        moving = figure.findobj(lambda artist: artist.get_animated())
        figure.draw_without_rendering()  # works out the layout, moving parts included
        figure.set_layout_engine("none")
        canvas.draw()
        moving.sort(key=lambda artist: artist.get_zorder())
        # Kept on the figure itself, so that it goes when the figure goes.
        figure.course_still = canvas.copy_from_bbox(figure.bbox), moving
    still, moving = figure.course_still
    canvas.restore_region(still)
    for artist in moving:
        artist.axes.draw_artist(artist)
    buffer = io.BytesIO()
    picture = Image.fromarray(np.asarray(canvas.buffer_rgba())).convert("RGB")
    picture.save(buffer, "png", compress_level=1)
    return buffer.getvalue()
