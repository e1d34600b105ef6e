"""A program of FastMCP on standard input and output, with tools that report progress and can be
cancelled.
"""

import asyncio

from fastmcp import Context, FastMCP

server = FastMCP("cancelled")
cancelled = 0


@server.tool
async def slow(ctx: Context) -> str:
    for n in range(3):
        await ctx.report_progress(n + 1, 3)
        await asyncio.sleep(0.05)
    return "done"


@server.tool
async def wait(ctx: Context) -> str:
    global cancelled
    await ctx.report_progress(0, 1)
    try:
        await asyncio.sleep(3600)
    except asyncio.CancelledError:
        cancelled += 1
        raise
    return ""


@server.tool
def heard() -> str:
    global cancelled
    before, cancelled = cancelled, 0
    return str(before)


server.run(transport="stdio", show_banner=False, log_level="warning")
