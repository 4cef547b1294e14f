"""`predict`: a question that is asked before the answer is shown."""

import html

import ipywidgets as widgets

from utils.page import publish


class Prediction:
    """A question with buttons, each of which answers with its own explanation.

    Attributes:
        buttons: one a option, in order.
        verdict: the HTML widget that shows what the last press earned.
        box: the widget to display.
    """

    def __init__(self, question, options, answer, why):
        self._check(question, options, answer, why)
        self.question, self.options, self.answer, self.why = question, list(options), answer, list(why)
        self.verdict = widgets.HTML()
        self.buttons = [
            widgets.Button(description=option, layout={"width": "auto", "min_width": "120px"}) for option in options
        ]
        for button, option in zip(self.buttons, options, strict=True):
            button.on_click(lambda pressed, option=option: self._reply(option))
        heading = widgets.HTML(f"<b>Predict.</b> {html.escape(question)}")
        self.box = widgets.VBox([heading, widgets.HBox(self.buttons, layout={"flex_flow": "row wrap"}), self.verdict])

    @staticmethod
    def _check(question, options, answer, why):
        if len(set(options)) != len(options) or len(options) < 2:
            raise ValueError(f"options={list(options)!r}; expected two or more that differ")
        if answer not in options:
            raise ValueError(f"answer={answer!r} is not among options={list(options)!r}")
        if len(why) != len(options):
            raise ValueError(f"why has {len(why)} explanations but options has {len(options)}; expected one each")

    def _reply(self, option):
        right = "Yes" if option == self.answer else "No"
        explanation = self.why[self.options.index(option)]
        self.verdict.value = f'<p role="status"><b>{right}: {html.escape(option)}.</b> {html.escape(explanation)}</p>'

    def show(self):
        """Display it: buttons with a kernel; without one, the question with its answer folded away."""
        listed = "".join(f"<li>{html.escape(option)}</li>" for option in self.options)
        answer = html.escape(f"{self.answer}. {self.why[self.options.index(self.answer)]}")
        folded = f"<details><summary>Answer</summary>{answer}</details>"
        without_kernel = {
            "text/html": f"<p><b>Predict.</b> {html.escape(self.question)}</p><ul>{listed}</ul>{folded}",
            "text/plain": f"Predict. {self.question} ({' / '.join(self.options)})",
        }
        publish(self.box, without_kernel)


def predict(question, options, answer, why):
    """Ask the reader for a guess before the cells below show what is so.

    Args:
        question: what is asked.
        options: the possible answers.
        answer: the right one of them.
        why: for each option, why it is right or what speaks against it.

    Raises:
        ValueError: fewer than two options, equal ones, an answer not among them, or a missing explanation.
    """
    Prediction(question, options, answer, why).show()
