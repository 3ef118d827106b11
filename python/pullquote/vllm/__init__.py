"""pullquote inside vLLM: its token ids, encoded by vLLM with whatever embedding model that serves.

``pip install "pullquote[vllm]"`` registers two plugins by the name ``pullquote``:

- an IO processor (``--io-processor-plugin pullquote``): ``POST /pooling`` and ``llm.encode({"data": …})``, for small pages;
- an endpoint (``VLLM_PLUGINS=pullquote``): ``POST /v1/highlights``, what ``pullquote serve`` answers at ``/highlights``.

`docs/vllm.md` shows both. Importing this imports neither vLLM nor torch.
"""

__all__ = ["io_processor_class"]


def io_processor_class() -> str:
    """What vLLM asks for: where the class of the IO processor is. Not named as its module, which would take its place here."""
    return "pullquote.vllm._io_processor.HighlightsIOProcessor"
