// A server of the TypeScript SDK, made the way its documentation recommends:
// McpServer, with a schema of zod for each tool. Arguments: address, file of
// tools. It answers each line of its standard input with the time that it has had a
// core, and ends with it.
import { randomUUID } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { createInterface } from 'node:readline';
import { McpServer } from '@modelcontextprotocol/sdk/server/mcp.js';
import { StreamableHTTPServerTransport } from '@modelcontextprotocol/sdk/server/streamableHttp.js';
import { z } from 'zod';

const [, , addr, file] = process.argv;
const [host, port] = addr.split(':');
const tools = JSON.parse(readFileSync(file, 'utf8'));
const types = { string: () => z.string(), integer: () => z.number().int(), boolean: () => z.boolean() };

function shape({ properties, required }) {
  return Object.fromEntries(Object.entries(properties).map(([name, { type, description }]) => {
    const one = types[type]().describe(description);
    return [name, required.includes(name) ? one : one.optional()];
  }));
}

function newServer() {
  const server = new McpServer({ name: 'bench', version: '1' });
  for (const { name, description, inputSchema } of tools) {
    server.registerTool(name, { description, inputSchema: shape(inputSchema) },
      async () => ({ content: [{ type: 'text', text: 'done' }] }));
  }
  return server;
}

const sessions = new Map();

async function handle(request, response) {
  const known = sessions.get(request.headers['mcp-session-id']);
  if (known) {
    await known.handleRequest(request, response);
    return;
  }
  const transport = new StreamableHTTPServerTransport({
    sessionIdGenerator: randomUUID,
    enableJsonResponse: true,
    onsessioninitialized: (id) => sessions.set(id, transport),
  });
  await newServer().connect(transport);
  await transport.handleRequest(request, response);
}

createServer((request, response) => {
  handle(request, response).catch((error) => {
    console.error(error);
    response.destroy();
  });
}).listen(Number(port), host);

createInterface({ input: process.stdin })
  .on('line', () => {
    const { user, system } = process.cpuUsage();
    console.log(JSON.stringify({ CPU: (user + system) * 1000 }));
  })
  .on('close', () => process.exit());
