"""The verbs of the extra; nothing here imports torch before one is called."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

from heads.backbone.models import BUNDLED
from heads.errors import DataError, LimitError
from heads.settings import current_limits

if TYPE_CHECKING:
    from heads.extras.serving.report import AdapterReport, EndpointReport


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


def check_endpoint(
    url: str,
    model: str | Path,
    *,
    server: str = "auto",
    texts: Sequence[str] = (),
    pairs: Sequence[str] = (),
    paired: bool = False,
    headers: Sequence[str] = (),
    endpoint: str = "",
    long: bool = True,
) -> EndpointReport:
    """Check whether a served classifier answers as the head of its checkpoint does.

    The server is asked about a few texts, and the checkpoint is computed here: as it is, and with
    each fault that servers are known to have, such as a dropped pooler, swapped labels, or a text
    that is cut without an error. Nothing is sent but these texts and the headers that are given.

    Args:
        url: The server's address, such as http://127.0.0.1:8080.
        model: The checkpoint that it is to serve: a folder, or an id of the Hub.
        server: Its kind: tei, vllm, transformers (a pipeline behind HTTP), gradio, or auto.
        texts: Texts that are sent, instead of the built-in ones.
        pairs: As many second texts, for a head that reads two.
        paired: Send pairs of texts also where the checkpoint does not say that it needs them.
        headers: Sent with every request, such as "Authorization: Bearer …".
        endpoint: The endpoint of a Gradio app, such as /predict, where it has several.
        long: Whether texts are sent that are as long as the checkpoint reads, and longer.

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
    with closing(Http(url, headers)) as http:
        classifier = load(str(model), BUNDLED, resolve("mean+linear"))
        rows = select_probes(classifier, texts, pairs, paired)
        client = connect(http, server, endpoint=endpoint, texts=len(rows[0]))
        if len(rows[0]) > 1 and not client.takes_pairs:
            what = f"{client.title} takes one text at a time, and this head needs two."
            raise DataError(what, "Serve it by text-embeddings-inference or by Transformers.")
        return Check(classifier, rows, client, str(model)).run(long=long)
