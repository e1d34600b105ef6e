"""A server of FastMCP, made the way its documentation recommends, with tools
that take nothing.

Arguments: address, file of tools. It answers each line of its standard input
with nothing that counts, and ends with it.
"""

import json
import os
import sys
import threading

from fastmcp import FastMCP


def done() -> str:
    return "done"


def end_with_parent():
    for _ in sys.stdin:
        print("{}", flush=True)
    os._exit(0)


host, port = sys.argv[1].split(":")
threading.Thread(target=end_with_parent, daemon=True).start()
server = FastMCP("bench")
with open(sys.argv[2], encoding="utf-8") as file:
    for tool in json.load(file):
        server.tool(done, name=tool["name"], description=tool["description"])
server.run(transport="http", host=host, port=int(port), path="/mcp",
           show_banner=False, uvicorn_config={"log_level": "error"})
