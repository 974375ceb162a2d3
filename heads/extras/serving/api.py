"""The verbs of the extra; nothing here imports torch before one is called."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from heads.backbone.models import BUNDLED
from heads.errors import DataError, LimitError
from heads.options import merge_options, option, takes_options
from heads.settings import current_limits

if TYPE_CHECKING:
    from heads.extras.serving.report import AdapterReport, EndpointReport


@dataclass(frozen=True, kw_only=True)
class EndpointOptions:
    """Options of `heads.check_endpoint`: what is sent, and how."""

    server: str = option(
        "auto", "Its kind: tei, vllm, transformers (a pipeline behind HTTP), gradio, or auto."
    )
    texts: Sequence[str] = option((), "Texts that are sent, instead of the built-in ones.")
    pairs: Sequence[str] = option((), "As many second texts, for a head that reads two.")
    paired: bool = option(
        False,
        "Send pairs of texts also where the checkpoint does not say that it needs them.",
        is_switch=True,
    )
    headers: Sequence[str] = option(
        (), 'Sent with every request, such as "Authorization: Bearer …".'
    )
    endpoint: str = option(
        "", "The endpoint of a Gradio app, such as /predict, where it has several."
    )
    long: bool = option(
        True, "Whether texts are sent that are as long as the checkpoint reads, and longer."
    )


def check_adapter(folder: str | Path, *, base: str = "") -> AdapterReport:
    """Check whether an adapter of PEFT is a whole classifier: head, labels, base model.

    PEFT loads an adapter whose head was never learned or saved without an error.

    Args:
        folder: The adapter's folder.
        base: The base model, where it is not the one that the folder names.

    Returns:
        What is in it: `.verdict`, `.findings`, `.is_whole`.

    Raises:
        CheckpointError: It is no folder of an adapter, or cannot be read.
        ModelError: The base model that was given is not on this machine.
    """
    from heads.extras.serving.adapter import check_folder

    return check_folder(str(folder), base)


@takes_options(EndpointOptions)
def check_endpoint(
    url: str,
    model: str | Path,
    *,
    options: EndpointOptions | None = None,
    **changes: Any,
) -> EndpointReport:
    """Check whether a served classifier answers as the head of its checkpoint does.

    The server is asked about a few texts, and the checkpoint is computed here: as it is, and with
    each fault that servers are known to have, such as a dropped pooler, swapped labels, or a text
    that is cut without an error. Nothing is sent but these texts and the headers that are given.

    Args:
        url: The server's address, such as http://127.0.0.1:8080.
        model: The checkpoint that it is to serve: a folder, or an id of the Hub.
        options: Options of an earlier call; arguments that are given beside them replace theirs.

    Returns:
        Whether it is right, and if not, what is wrong: `.is_right`, `.verdict`, `.findings`.

    Raises:
        EndpointError: There is no server, or its answers cannot be read.
        LimitError: This is a public place, from which nothing is sent for strangers.
        HeadsError: The checkpoint does not load, or the texts do not suit it.
    """
    from heads.classifier.pretrained import load
    from heads.extras.serving.check import Check
    from heads.extras.serving.encoding import select_probes
    from heads.extras.serving.http import Http
    from heads.extras.serving.servers import connect
    from heads.parts.resolve import resolve

    if current_limits().public:
        what = "Endpoints are asked from your own machine, and not from a page for strangers."
        raise LimitError(what, "Install Head to Head, and run heads check-endpoint.")
    (merged,) = merge_options((options or EndpointOptions(),), changes)
    with closing(Http(url, merged.headers)) as http:
        classifier = load(str(model), BUNDLED, resolve("mean+linear"))
        rows = select_probes(classifier, merged.texts, merged.pairs, merged.paired)
        client = connect(http, merged.server, endpoint=merged.endpoint, texts=len(rows[0]))
        if len(rows[0]) > 1 and not client.takes_pairs:
            what = f"{client.title} takes one text at a time, and this head needs two."
            raise DataError(what, "Serve it by text-embeddings-inference or by Transformers.")
        return Check(classifier, rows, client, str(model)).run(long=merged.long)
