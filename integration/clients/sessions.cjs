// Opens sessions with a TypeScript SDK, as a client with every capability, and
// lists tools in each.
//
//   node sessions.cjs PACKAGES SDK URL SESSIONS LISTS [TOOL...]
//
// PACKAGES is the folder with node_modules. SDK is ts1 (@modelcontextprotocol/sdk)
// or ts2 (@modelcontextprotocol/client). In each session it also calls those tools. For
// each session it prints one line: a JSON array of what came, in order, "notice",
// {count, digest, status} or {tool, text}.
const { createHash } = require("node:crypto")
const { createRequire } = require("node:module")

const [packages, sdk, url, sessions, lists, ...calls] = process.argv.slice(2)
const load = createRequire(packages + "/")
const first = sdk === "ts1"
const { Client } = load(first ? "@modelcontextprotocol/sdk/client/index.js" : "@modelcontextprotocol/client")
const { StreamableHTTPClientTransport } = load(
  first ? "@modelcontextprotocol/sdk/client/streamableHttp.js" : "@modelcontextprotocol/client")
const schemas = first && load("@modelcontextprotocol/sdk/types.js")

// between is how long a session pauses between two lists, in milliseconds: an
// agent does something in between, and notices arrive.
const between = 50

const answers = {
  "roots/list": ["ListRootsRequestSchema", { roots: [{ uri: "file:///tmp", name: "tmp" }] }],
  "sampling/createMessage": ["CreateMessageRequestSchema", { model: "none", role: "assistant", content: { type: "text", text: "" } }],
  "elicitation/create": ["ElicitRequestSchema", { action: "decline" }],
}

async function session() {
  const came = []
  let status
  const watched = async (address, init) => {
    const answer = await fetch(address, init)
    if (init.method === "POST" && init.body.includes('"tools/list"')) status = answer.headers.get("cache-status") ?? ""
    return answer
  }
  const client = new Client({ name: "sessions-" + sdk, version: "1" }, {
    capabilities: { sampling: {}, elicitation: { form: {}, url: {} }, roots: { listChanged: true } },
  })
  for (const [method, [schema, answer]] of Object.entries(answers)) {
    client.setRequestHandler(first ? schemas[schema] : method, async () => answer)
  }
  client.setNotificationHandler(
    first ? schemas.ToolListChangedNotificationSchema : "notifications/tools/list_changed",
    async () => { came.push("notice") })
  const transport = new StreamableHTTPClientTransport(new URL(url), { fetch: watched })
  await client.connect(transport)
  for (let i = 0; i < Number(lists); i++) {
    const { tools } = await client.listTools()
    const digest = createHash("sha256").update(JSON.stringify(tools)).digest("hex")
    came.push({ count: tools.length, digest, status })
    await new Promise(done => setTimeout(done, between))
  }
  for (const tool of calls) {
    const { content } = await client.callTool({ name: tool, arguments: tool.endsWith("echo") ? { message: "hi" } : {} })
    came.push({ tool, text: content[0].text })
  }
  await transport.terminateSession()
  await client.close()
  console.log(JSON.stringify(came))
}

(async () => {
  for (let i = 0; i < Number(sessions); i++) await session()
})().catch(err => {
  console.error(err)
  process.exit(1)
})
