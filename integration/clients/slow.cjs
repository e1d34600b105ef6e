// A program that speaks MCP over its standard input and output. It does one thing
// after the other, takes 12 s for each list, and heeds no cancellation.
//
//   node slow.cjs
const { createInterface } = require("node:readline")
const { setTimeout } = require("node:timers/promises")

const lists = {
  "tools/list": { tools: [{ name: "slow", inputSchema: { type: "object" } }] },
  "prompts/list": { prompts: [{ name: "slow" }] },
  "resources/list": { resources: [{ uri: "slow://slow", name: "slow" }] },
  "resources/templates/list": { resourceTemplates: [{ uriTemplate: "slow://{slow}", name: "slow" }] },
}

async function answer({ id, method, params }) {
  if (id === undefined || !method) return
  let result = lists[method]
  if (result) await setTimeout(12_000)
  if (method === "ping") result = {}
  if (method === "initialize") {
    result = {
      protocolVersion: params.protocolVersion,
      serverInfo: { name: "slow", version: "1" },
      capabilities: { tools: {}, prompts: {}, resources: {} },
    }
  }
  const said = result ? { result } : { error: { code: -32601, message: "method not found" } }
  console.log(JSON.stringify({ jsonrpc: "2.0", id, ...said }))
}

let before = Promise.resolve()
createInterface({ input: process.stdin })
  .on("line", line => { before = before.then(() => answer(JSON.parse(line))) })
  .on("close", () => process.exit())
