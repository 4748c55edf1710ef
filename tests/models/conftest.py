"""One scripted model for all tests of this folder; each test adds scenarios under a name of its own."""

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import Any

import pytest

from roundturn.jsontext import dump
from roundturn.message import Reply
from roundturn.model import ModelRequest
from roundturn.models.openai_chat import OpenAIChat
from tests.scripted_server import ScriptedServer, start_scripted_server, stop_scripted_server

Say = Callable[..., Awaitable[Reply]]


@pytest.fixture(scope="session")
def server() -> Iterator[ScriptedServer]:
    started = start_scripted_server()
    yield started
    stop_scripted_server(started.process)


@pytest.fixture
def name(request: pytest.FixtureRequest) -> str:
    """What this test calls its scenario, and says to reach it."""
    return f"<{request.node.name}>"


@pytest.fixture
async def chat(server: ScriptedServer) -> AsyncIterator[OpenAIChat]:
    adapter = OpenAIChat(server.base_url, "sk-test-1234", 20)
    yield adapter
    await adapter.close()


@pytest.fixture
def say(server: ScriptedServer, chat: OpenAIChat, name: str) -> Say:
    """Scripts the steps under this test's name and makes one call for each time it is awaited."""

    async def one_call(*steps: dict[str, Any], by: OpenAIChat = chat, later: Any = ()) -> Reply:
        if steps:
            await server.add([{"name": name, "match": name, "steps": list(steps)}])
        return await by.complete(ask(name, *later))

    return one_call


def ask(text: str, *later: dict[str, Any], **options: Any) -> ModelRequest:
    messages = [{"role": "system", "content": "s"}, {"role": "user", "content": text}, *later]
    encoded = dump(messages).encode()
    return ModelRequest(model="m", messages=encoded, tools=options.pop("tools", ()), **options)
