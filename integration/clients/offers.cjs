// Serves what is offered with the TypeScript SDK, with sessions whose streams can be
// resumed.
//
//   OFFER=... PORT=... node offers.cjs PACKAGES
//
// PACKAGES is the folder with node_modules. OFFER is JSON: tools, prompts, resources
// and templates, each a list of {name, about, readOnly}; the name of the last two is
// their URI. A POST of such a tool to /add adds it, and sessions are told.
const { createRequire } = require("node:module")
const { randomUUID } = require("node:crypto")
const http = require("node:http")

const load = createRequire(process.argv[2] + "/")
const { McpServer, ResourceTemplate } = load("@modelcontextprotocol/sdk/server/mcp.js")
const { StreamableHTTPServerTransport } = load("@modelcontextprotocol/sdk/server/streamableHttp.js")
const { completable } = load("@modelcontextprotocol/sdk/server/completable.js")
const { z } = load("zod")

const offer = JSON.parse(process.env.OFFER)
const sessions = new Map()

// Events keeps the events of a session. Their IDs end with a number.
class Events {
  all = []

  async storeEvent(stream, message) {
    this.all.push({ stream, message })
    return `${stream}_${this.all.length}`
  }

  async replayEventsAfter(last, { send }) {
    const cut = last.lastIndexOf("_")
    const stream = last.slice(0, cut)
    for (let i = Number(last.slice(cut + 1)); i < this.all.length; i++) {
      if (this.all[i].stream === stream) await send(`${stream}_${i + 1}`, this.all[i].message)
    }
    return stream
  }
}

function addTool(server, { name, about, readOnly }) {
  server.registerTool(name, { description: about, annotations: { readOnlyHint: readOnly } },
    () => ({ content: [{ type: "text", text: about }] }))
}

function serve() {
  const server = new McpServer({ name: "offers", version: "1" }, { capabilities: { logging: {} } })
  for (const tool of offer.tools) addTool(server, tool)
  for (const { name, about } of offer.prompts) {
    server.registerPrompt(name, { description: about, argsSchema: { a: completable(z.string().optional(), () => [about]) } },
      () => ({ description: about, messages: [] }))
  }
  const read = about => uri => ({ contents: [{ uri: uri.href, text: about }] })
  for (const { name, about } of offer.resources) server.registerResource(name, name, { description: about }, read(about))
  for (const { name, about } of offer.templates) {
    server.registerResource(name, new ResourceTemplate(name, { list: undefined, complete: { x: () => [about] } }), { description: about }, read(about))
  }
  return server
}

async function transportOf(request) {
  const known = sessions.get(request.headers["mcp-session-id"])
  if (known) return known.transport
  const server = serve()
  const transport = new StreamableHTTPServerTransport({
    sessionIdGenerator: randomUUID, eventStore: new Events(),
    onsessioninitialized: id => sessions.set(id, { transport, server }),
  })
  await server.connect(transport)
  return transport
}

http.createServer(async (request, response) => {
  try {
    if (request.url === "/add") {
      let body = ""
      for await (const part of request) body += part
      const tool = JSON.parse(body)
      offer.tools.push(tool)
      for (const { server } of sessions.values()) addTool(server, tool)
      response.end()
      return
    }
    await (await transportOf(request)).handleRequest(request, response)
  } catch (error) {
    console.error(error)
    response.statusCode = 500
    response.end()
  }
}).listen(Number(process.env.PORT), "127.0.0.1")
