"""What public functions say of themselves, in flags and endpoints."""

import inspect
import subprocess
import sys

import pytest

from heads import api, plugins
from heads.data.table import ColumnHints
from heads.interfaces.cli import app
from heads.interfaces.docstrings import arguments, described, flag, summary
from heads.settings import ExperimentConfig

VERBS = [plugins.load(verb) for verb in plugins.verbs().values()]  # of extras
FUNCTIONS = [getattr(api, name) for name in api.__all__ if name not in ("Inspector", "training")]
FUNCTIONS += VERBS


def example(text: str, share: float = 0.5) -> str:
    """Says `text` again.

    And more of it, on
    several lines.

    Args:
        text: The text: one of "a", "b", or
            a longer one.
        share: BERT's share of 100 %.

    Returns:
        It.
    """
    return text * int(share)


def test_a_docstring_is_read_whole():
    assert summary(example) == "Says text again."
    assert arguments(example) == {
        "text": 'The text: one of "a", "b", or a longer one.',
        "share": "BERT's share of 100 %.",
    }


def test_an_endpoint_is_described_by_what_it_calls():
    @described(example, ColumnHints, returns="The answer.")
    def endpoint(text: str, label: str, share: float = 1):
        """
        Args:
            share: Its own.
        """

    assert inspect.getdoc(endpoint) == "\n".join(
        [
            "Says text again.",
            "",
            "Args:",
            '    text: The text: one of "a", "b", or a longer one.',
            f"    label: {arguments(ColumnHints)['label']}",
            "    share: Its own.",
            "",
            "Returns:",
            "    The answer.",
        ]
    )
    with pytest.raises(TypeError, match="endpoint: nothing describes unheard_of"):

        @described(example)
        def endpoint(text: str, unheard_of: int):
            pass


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda one: one.__name__)
def test_every_argument_of_a_public_function_is_described(function):
    asked = set(inspect.signature(function).parameters)
    assert asked <= set(arguments(function)), "its docstring leaves some out"
    assert summary(function).endswith(".")


def test_the_stream_takes_what_the_function_takes():
    assert inspect.signature(api.training).parameters == inspect.signature(api.train).parameters


def test_every_setting_and_every_column_is_described():
    for source in (ExperimentConfig, ColumnHints):
        assert set(inspect.signature(source).parameters) == set(arguments(source))


def test_every_flag_has_a_sentence_on_one_footing():
    commands = app._load_commands("").commands  # those of extras too
    found = [(verb, one) for verb, command in commands.items() for one in command.params]
    assert len(found) > 100
    for verb, one in found:
        assert one.help, (verb, one.name)
        assert not one.help.endswith("."), (verb, one.help)
        assert one.help[:1].islower() or not one.help[1:2].islower(), (verb, one.help)
    said = {one.help for verb, one in found if one.name == "model" and verb != "fetch"}
    known = (api.compare, api.difference, api.examine, api.Inspector, api.predict, api.evaluate)
    known = (*known, *(verb for verb in VERBS if "model" in arguments(verb)))
    assert said == {flag(arguments(source)["model"]) for source in known}


@pytest.mark.parametrize("code", ["import heads.api", "from heads.interfaces.cli import app"])
def test_the_face_and_the_help_come_without_torch(code):
    code += "; import sys; print({'torch', 'transformers', 'gradio'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"
