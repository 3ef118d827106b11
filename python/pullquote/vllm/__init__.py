"""pullquote inside vLLM, which encodes its rows with the embedding model that it serves.

``pip install "pullquote[vllm]"`` registers two plugins by the name ``pullquote``:

- an IO processor (``--io-processor-plugin pullquote``): ``POST /pooling`` and ``llm.encode({"data": …})``, for small pages;
- an endpoint (``VLLM_PLUGINS=pullquote``): ``POST /v1/highlights``, what ``pullquote serve`` answers at ``/highlights``.

`docs/vllm.md` shows both. Importing this imports neither vLLM nor torch.
"""

__all__ = ["io_processor_class"]


def io_processor_class() -> str:
    """The path of the IO processor's class, for vLLM."""
    return "pullquote.vllm._io_processor.HighlightsIOProcessor"
