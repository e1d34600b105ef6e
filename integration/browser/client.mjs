// A page's MCP client, made with the TypeScript SDK: it lists the tools of the
// server that the page's address names a few times, and reports to the page's
// own server what each list was, and what Cache-Status said of it.
import { Client } from "@modelcontextprotocol/sdk/client/index.js"
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js"

const report = { lists: [], statuses: [] }
try {
	const url = new URL(new URLSearchParams(location.search).get("server"))
	const client = new Client({ name: "page", version: "1" })
	await client.connect(new StreamableHTTPClientTransport(url, {
		async fetch(input, init) {
			const answer = await fetch(input, init)
			if (String(init?.body).includes('"tools/list"')) report.statuses.push(answer.headers.get("cache-status"))
			return answer
		},
	}))
	for (let i = 0; i < 5; i++) report.lists.push((await client.listTools()).tools.map((tool) => tool.name))
	report.session = client.transport.sessionId
} catch (error) {
	report.error = String(error)
}
await fetch("/report", { method: "POST", body: JSON.stringify(report) })
