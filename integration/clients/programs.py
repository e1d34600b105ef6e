"""Uses a program on standard input and output with a Python SDK, or a server that presents it,
and prints one line: a JSON array of what came of each step.

    python programs.py SDK STEPS URL
    python programs.py SDK STEPS COMMAND [ARG...]

SDK is mcp1 or mcp2 (a ClientSession of those versions), mcp2-client (the Client of version 2), or
fastmcp. STEPS is a JSON array: {list: true}, or {tool, arguments, cancel, until}. A call with
cancel is left at its first progress; one with until is repeated until it gives that text.
"""

import asyncio
import json
import sys
from contextlib import AsyncExitStack

import mcp.types as types

sdk, steps, target = sys.argv[1], json.loads(sys.argv[2]), sys.argv[3:]


async def sample(*_):
    return types.CreateMessageResult(model="none", role="assistant", content=types.TextContent(type="text", text="sampled"))


def transport():
    if target[0].startswith("http://"):
        from mcp.client.streamable_http import streamable_http_client

        return streamable_http_client(target[0])
    from mcp import StdioServerParameters
    from mcp.client.stdio import stdio_client

    return stdio_client(StdioServerParameters(command=target[0], args=target[1:]))


async def connect(stack):
    if sdk == "fastmcp":
        from fastmcp import Client
        from fastmcp.client.transports import StdioTransport, StreamableHttpTransport

        over = StreamableHttpTransport(target[0]) if target[0].startswith("http://") else StdioTransport(target[0], target[1:])
        return await stack.enter_async_context(Client(over, sampling_handler=sample))
    if sdk == "mcp2-client":
        from mcp import Client

        return await stack.enter_async_context(Client(transport(), sampling_callback=sample))
    from mcp import ClientSession

    streams = await stack.enter_async_context(transport())
    client = await stack.enter_async_context(ClientSession(streams[0], streams[1], sampling_callback=sample))
    await client.initialize()
    return client


async def call(client, step):
    progress = 0
    begun = asyncio.Event()

    async def heard(*_):
        nonlocal progress
        progress += 1
        begun.set()

    handler = "progress_handler" if sdk == "fastmcp" else "progress_callback"
    running = asyncio.ensure_future(client.call_tool(step["tool"], step.get("arguments", {}), **{handler: heard}))
    if step.get("cancel"):
        await begun.wait()
        running.cancel()
        await asyncio.wait([running])
        return {"tool": step["tool"], "text": "cancelled", "progress": True}
    result = await running
    return {"tool": step["tool"], "text": result.content[0].text, "progress": progress > 0}


async def main():
    async with AsyncExitStack() as stack:
        client = await connect(stack)
        came = []
        for step in steps:
            if step.get("list"):
                result = await client.list_tools()
                came.append([tool.model_dump(mode="json", by_alias=True) for tool in getattr(result, "tools", result)])
                continue
            result = await call(client, step)
            while step.get("until", result["text"]) != result["text"]:
                result = await call(client, step)
            came.append(result)
        print(json.dumps(came), flush=True)


asyncio.run(main())
