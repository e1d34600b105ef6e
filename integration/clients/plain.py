"""A server of mcp 1 with sessions that does not say that its lists may change.

    python plain.py PORT
"""

import sys

from mcp.server.fastmcp import FastMCP

server = FastMCP("plain", host="127.0.0.1", port=int(sys.argv[1]), log_level="WARNING")


@server.tool()
def plain() -> str:
    return ""


server.run(transport="streamable-http")
