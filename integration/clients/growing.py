"""A server of FastMCP whose tool grow adds a tool in each call. In a session of the
legacy era FastMCP announces that to nobody.

    python growing.py PORT
"""

import sys

from fastmcp import FastMCP

server = FastMCP("growing")
grown = 0


@server.tool
def grow() -> str:
    global grown
    grown += 1

    def tool() -> str:
        return ""

    tool.__name__ = f"grown_{grown}"
    server.tool(tool)
    return tool.__name__


server.run(transport="http", host="127.0.0.1", port=int(sys.argv[1]), path="/mcp", show_banner=False, log_level="warning")
