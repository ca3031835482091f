"""Downloads: verified, resumable, and the token goes to the registry only."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from registry.contract.nodes import EngineRef
from serving.agent.fetch import Fetcher, file_digest
from serving.agent.state import StateDirectory
from tests.serving.agent.making import digest_of, engine
from tests.serving.agent.peer import TOKEN, Peer

CONTENT = bytes(range(256)) * 4096


def ref(content: bytes = CONTENT) -> EngineRef:
    return engine(1).model_copy(update={"digest": digest_of(content), "size": len(content)})


class Bench:
    """A fetcher whose ends can be waited for."""

    def __init__(self, peer: Peer, state: StateDirectory) -> None:
        self.ended = asyncio.Event()
        self.bad: dict[str, str] = {}
        self.fetcher = Fetcher(peer.url, TOKEN, state, self.ended.set, self.bad.__setitem__)

    async def fetch(self, what: EngineRef) -> None:
        self.ended.clear()
        self.fetcher.start(what)
        async with asyncio.timeout(60):
            await self.ended.wait()


@pytest.fixture
async def bench(peer: Peer, state: StateDirectory) -> AsyncIterator[Bench]:
    bench = Bench(peer, state)
    yield bench
    await bench.fetcher.close()


async def test_bytes_arrive_whole_and_the_token_stays_with_the_registry(
    bench: Bench, peer: Peer, state: StateDirectory
) -> None:
    peer.blobs[ref().digest] = CONTENT
    await bench.fetch(ref())
    assert bench.fetcher.disk == (ref().digest,)
    assert not bench.fetcher.downloads
    assert file_digest(state.engine(ref().digest)) == ref().digest
    assert [(seen.path.split("/")[1], seen.authorization) for seen in peer.downloads] == [
        ("v1", f"Bearer {TOKEN}"),
        ("store", None),
    ]


async def test_a_broken_download_goes_on_where_it_stopped(
    bench: Bench, peer: Peer, state: StateDirectory
) -> None:
    peer.blobs[ref().digest] = CONTENT
    peer.cut_after = 600_000
    await bench.fetch(ref())
    download = bench.fetcher.downloads[ref().digest]
    assert not download.running and "attempt 2" in download.reason
    got = state.engine(ref().digest).with_suffix(".part").stat().st_size
    assert 0 < got <= 600_000
    await bench.fetch(ref())
    assert peer.downloads[-1].range == f"bytes={got}-"
    assert file_digest(state.engine(ref().digest)) == ref().digest


async def test_wrong_bytes_are_bad_for_good(bench: Bench, peer: Peer, state: StateDirectory) -> None:
    peer.blobs[ref().digest] = CONTENT[:-1] + b"x"
    await bench.fetch(ref())
    assert "another digest" in bench.bad[ref().digest]
    assert bench.fetcher.disk == ()
    assert not list(state.engines.glob("*/*"))


async def test_a_damaged_part_is_thrown_away_before_the_store_is_blamed(
    bench: Bench, peer: Peer, state: StateDirectory
) -> None:
    peer.blobs[ref().digest] = CONTENT
    part = state.engine(ref().digest).with_suffix(".part")
    part.parent.mkdir(parents=True)
    part.write_bytes(b"y" * 1000)
    await bench.fetch(ref())
    assert not bench.bad and not part.exists()
    await bench.fetch(ref())
    assert bench.fetcher.disk == (ref().digest,)


async def test_an_answer_that_is_too_long_is_not_taken(bench: Bench, peer: Peer) -> None:
    short = ref().model_copy(update={"size": 1000})
    peer.blobs[short.digest] = CONTENT
    await bench.fetch(short)
    assert short.digest in bench.bad


async def test_a_missing_object_is_tried_again_later(bench: Bench, peer: Peer) -> None:
    await bench.fetch(ref())
    download = bench.fetcher.downloads[ref().digest]
    assert "404" in download.reason and download.retry_at is not None
    peer.blobs[ref().digest] = CONTENT
    await bench.fetch(ref())
    assert bench.fetcher.disk == (ref().digest,)
