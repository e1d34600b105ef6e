"""Opens sessions with a Python SDK, as a client with every capability, and lists
tools in each.

    python sessions.py SDK URL SESSIONS LISTS [TOOL...]

SDK is mcp1 or mcp2 (a ClientSession of those versions), mcp2-client (the Client of
version 2), or fastmcp. In each session it also calls those tools. For each session it
prints one line: a JSON array of what came, in order, "notice", {count, digest, status} or
{tool, text}.
"""

import asyncio
import hashlib
import json
import sys
from contextlib import AsyncExitStack

import mcp.types as types

sdk, url, sessions, lists, calls = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]), sys.argv[5:]
if sdk == "mcp1":
    import httpx
else:
    import httpx2 as httpx

# How long a session pauses between two lists, in seconds: an agent does something
# in between, and notices arrive.
BETWEEN = 0.05


class Session:
    def __init__(self):
        self.came = []
        self.status = ""

    async def response(self, response):
        request = response.request
        if request.method == "POST" and b'"tools/list"' in request.content:
            self.status = response.headers.get("cache-status", "")

    async def message(self, message):
        if isinstance(getattr(message, "root", message), types.ToolListChangedNotification):
            self.came.append("notice")

    def http(self, **options):
        return httpx.AsyncClient(event_hooks={"response": [self.response]}, **options)

    async def connect(self, stack):
        if sdk == "fastmcp":
            return await stack.enter_async_context(self.fastmcp())
        from mcp.client.streamable_http import streamable_http_client

        http = await stack.enter_async_context(self.http(timeout=30))
        transport = streamable_http_client(url, http_client=http)
        handlers = dict(sampling_callback=sample, elicitation_callback=elicit,
                        list_roots_callback=roots, message_handler=self.message)
        if sdk == "mcp2-client":
            from mcp import Client

            return await stack.enter_async_context(Client(transport, **handlers))
        from mcp import ClientSession

        streams = await stack.enter_async_context(transport)
        client = await stack.enter_async_context(ClientSession(streams[0], streams[1], **handlers))
        await client.initialize()
        return client

    def fastmcp(self):
        from fastmcp import Client
        from fastmcp.client.transports import StreamableHttpTransport

        transport = StreamableHttpTransport(url, httpx_client_factory=self.http)
        return Client(transport, roots=["file:///tmp"], sampling_handler=sample, elicitation_handler=elicit,
                      message_handler=self.message, log_handler=ignore)

    async def run(self):
        async with AsyncExitStack() as stack:
            client = await self.connect(stack)
            for _ in range(lists):
                result = await client.list_tools()
                tools = [tool.model_dump(mode="json", by_alias=True) for tool in getattr(result, "tools", result)]
                digest = hashlib.sha256(json.dumps(tools).encode()).hexdigest()
                self.came.append({"count": len(tools), "digest": digest, "status": self.status})
                await asyncio.sleep(BETWEEN)
            for tool in calls:
                result = await client.call_tool(tool, {"message": "hi"} if tool.endswith("echo") else {})
                self.came.append({"tool": tool, "text": result.content[0].text})
        print(json.dumps(self.came), flush=True)


async def roots(*_):
    return types.ListRootsResult(roots=[types.Root(uri="file:///tmp", name="tmp")])


async def sample(*_):
    return types.CreateMessageResult(model="none", role="assistant", content=types.TextContent(type="text", text=""))


async def elicit(*_):
    return types.ElicitResult(action="decline")


async def ignore(*_):
    pass


async def main():
    for _ in range(sessions):
        await Session().run()


asyncio.run(main())
