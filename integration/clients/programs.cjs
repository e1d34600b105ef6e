// Uses a program on standard input and output with a TypeScript SDK, or a server that
// presents it, and prints one line: a JSON array of what came of each step.
//
//   node programs.cjs PACKAGES SDK STEPS URL
//   node programs.cjs PACKAGES SDK STEPS COMMAND [ARG...]
//
// PACKAGES is the folder with node_modules. SDK is ts1 (@modelcontextprotocol/sdk) or ts2
// (@modelcontextprotocol/client). STEPS is a JSON array: {list: true}, or {tool, arguments,
// cancel, until}. A call with cancel is cancelled at its first progress; one with until is
// repeated until it gives that text.
const { createRequire } = require("node:module")

const [packages, sdk, steps, ...target] = process.argv.slice(2)
const load = createRequire(packages + "/")
const first = sdk === "ts1"
const { Client } = load(first ? "@modelcontextprotocol/sdk/client/index.js" : "@modelcontextprotocol/client")
const { StreamableHTTPClientTransport } = load(
  first ? "@modelcontextprotocol/sdk/client/streamableHttp.js" : "@modelcontextprotocol/client")
const { StdioClientTransport } = load(first ? "@modelcontextprotocol/sdk/client/stdio.js" : "@modelcontextprotocol/client/stdio")
const schemas = first && load("@modelcontextprotocol/sdk/types.js")

const sampled = { model: "none", role: "assistant", content: { type: "text", text: "sampled" } }

async function call(client, { tool, arguments: args = {}, cancel }) {
  let progress = false
  const abort = new AbortController()
  const options = {
    signal: abort.signal,
    onprogress: () => {
      progress = true
      if (cancel) abort.abort("cancelled")
    },
  }
  try {
    const { content } = await (first
      ? client.callTool({ name: tool, arguments: args }, undefined, options)
      : client.callTool({ name: tool, arguments: args }, options))
    return { tool, text: content[0].text, progress }
  } catch (err) {
    if (!abort.signal.aborted) throw err
    return { tool, text: "cancelled", progress }
  }
}

async function main() {
  const client = new Client({ name: "programs-" + sdk, version: "1" }, { capabilities: { sampling: {} } })
  client.setRequestHandler(first ? schemas.CreateMessageRequestSchema : "sampling/createMessage", async () => sampled)
  await client.connect(target[0].startsWith("http://")
    ? new StreamableHTTPClientTransport(new URL(target[0]))
    : new StdioClientTransport({ command: target[0], args: target.slice(1), stderr: "ignore" }))
  const came = []
  for (const step of JSON.parse(steps)) {
    if (step.list) {
      came.push(await client.listTools())
      continue
    }
    let result = await call(client, step)
    while (step.until && result.text !== step.until) result = await call(client, step)
    came.push(result)
  }
  await client.close()
  console.log(JSON.stringify(came))
}

main().catch(err => {
  console.error(err)
  process.exit(1)
})
