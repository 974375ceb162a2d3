"""The verbs of the extra; nothing here imports torch before one is called."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from heads.settings import Limits
from heads.settings import limits as limits_here

if TYPE_CHECKING:
    from heads.extras.serving.adapter import AdapterReport
    from heads.extras.serving.report import EndpointReport


def check_adapter(
    folder: str | Path, *, base: str = "", limits: Limits | None = None
) -> AdapterReport:
    """Finds out whether an adapter of PEFT is a whole classifier: head, labels, base model.

    PEFT loads an adapter whose head was never learned, or never saved, in silence, with a head
    that is random.

    Args:
        folder: The adapter's folder.
        base: The base model, where it is not the one that the folder names.

    Returns:
        What is in it: `.verdict`, `.findings`, `.is_whole`.

    Raises:
        CheckpointError: It is no folder of an adapter, or cannot be read.
        ModelError: The base model that was given is not on this machine.
    """
    from heads.extras.serving import adapter

    return adapter.check_adapter(str(folder), base, limits or limits_here())


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
    limits: Limits | None = None,
) -> EndpointReport:
    """Finds out whether a served classifier answers as the head of its checkpoint does.

    The server is asked about a few texts, and the checkpoint is computed here: as it is, and with
    each fault that servers are known to have, such as a dropped pooler, another pooling, logits
    for probabilities, swapped labels, or a text that is cut in silence. Nothing is sent but these
    texts and the headers that are given.

    Args:
        url: The server's address, such as http://127.0.0.1:8080.
        model: The checkpoint that it is to serve: a folder, or an id of the Hub.
        server: What it is: tei, vllm, transformers (a pipeline behind HTTP) or gradio; auto finds
            it out.
        texts: What it is asked about, in place of the texts that stand ready.
        pairs: As many second texts, for a head that reads two.
        paired: Ask about pairs of texts also where the checkpoint does not say that it needs them.
        headers: Sent with every request, such as "Authorization: Bearer …".
        endpoint: The endpoint of a Gradio app, such as /predict, where it has several.
        long: Whether texts are tried that are as long as the checkpoint reads, and longer.

    Returns:
        Whether it is right, and if not, what is wrong: `.is_right`, `.verdict`, `.findings`.

    Raises:
        EndpointError: There is no server, or its answers cannot be read.
        LimitError: This is a public place.
        HeadsError: The checkpoint does not load, or the texts do not suit it.
    """
    from heads.extras.serving import check

    return check.check_endpoint(
        url,
        str(model),
        limits or limits_here(),
        server=server,
        texts=texts,
        pairs=pairs,
        paired=paired,
        headers=headers,
        endpoint=endpoint,
        long=long,
    )
