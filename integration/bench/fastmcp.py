"""A proxy of FastMCP in front of an MCP server, made the way its documentation
recommends: create_proxy, with answers in JSON, which cost less than streams.

Arguments: address, URL of the server, and "caching" for FastMCP's own. It answers each line of its standard input
with the time that it has had a core, and ends with it.
"""

import json
import os
import resource
import sys
import threading

from fastmcp.server import create_proxy
from fastmcp.server.middleware.caching import ResponseCachingMiddleware


def answer_usage():
    for _ in sys.stdin:
        used = resource.getrusage(resource.RUSAGE_SELF)
        print(json.dumps({"CPU": int((used.ru_utime + used.ru_stime) * 1e9)}), flush=True)
    os._exit(0)


host, port = sys.argv[1].split(":")
threading.Thread(target=answer_usage, daemon=True).start()
proxy = create_proxy(sys.argv[2], name="bench")
if "caching" in sys.argv[3:]:
    proxy.add_middleware(ResponseCachingMiddleware())
proxy.run(
    transport="http", host=host, port=int(port), path="/mcp", json_response=True,
    show_banner=False, uvicorn_config={"log_level": "error"})
