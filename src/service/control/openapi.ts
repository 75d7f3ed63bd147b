/** The OpenAPI document of the control listener, generated from the schemas that validate requests. */
import * as z from "zod";
import { problemReply } from "../operations/contract/contract.js";
import type { Description, Role } from "./endpoint.js";

type Json = Record<string, unknown>;

const summaries: Record<number, string> = {
  400: "A field is missing or invalid; nothing was changed.",
  401: "The token is missing or wrong.",
  403: "The address, Host, origin or role is not allowed, or this API is disabled.",
  413: "The body is too large.",
  415: "The media type is not supported.",
  429: "Too many wrong tokens from this address.",
  500: "An internal error.",
  503: "The store does not answer.",
};

const roles: Record<Role, string> = {
  public: "Public.",
  address: "Requires an allowed address.",
  plane: "Requires an allowed address and the token of data planes.",
  admin: "Requires an allowed address and the admin token.",
};

export function openApiDocument(endpoints: readonly Description[], version: string): Json {
  const paths: Record<string, Json> = {};
  for (const endpoint of endpoints) {
    paths[endpoint.path] = { ...paths[endpoint.path], [endpoint.method.toLowerCase()]: operation(endpoint) };
  }
  return {
    openapi: "3.1.0",
    info: { title: "Tollgate control listener", version },
    paths,
    components: {
      schemas: { Problem: schemaOf(problemReply, "output") },
      securitySchemes: {
        admin: { type: "http", scheme: "bearer", description: "control.admin_token" },
        plane: { type: "http", scheme: "bearer", description: "control.plane_token" },
      },
    },
  };
}

function operation(endpoint: Description): Json {
  const { method, path, role, summary, query, request, raw, action } = endpoint;
  const bodies = raw ?? (request === undefined ? undefined : { "application/json": request });
  const parameters = [
    ...[...path.matchAll(/\{([^}]+)\}/g)].map(([, name]) => ({
      name,
      in: "path",
      required: true,
      schema: { type: "string" },
    })),
    ...queryParameters(query),
    ...(action === undefined
      ? []
      : [
          {
            name: "X-Operator",
            in: "header",
            schema: { type: "string", maxLength: 128 },
            description: "Who makes the change.",
          },
        ]),
  ];
  return {
    operationId: operationId(method, path),
    summary,
    description: roles[role],
    ...(parameters.length === 0 ? {} : { parameters }),
    ...(bodies === undefined ? {} : { requestBody: { required: isRequired(endpoint), content: contents(bodies) } }),
    responses: responses(endpoint),
    ...(role === "admin" || role === "plane" ? { security: [{ [role]: [] }] } : {}),
  };
}

function operationId(method: string, path: string): string {
  const words = path.replace(/^\/admin\/ratelimit/, "").match(/[A-Za-z0-9]+/g) ?? [];
  return [method.toLowerCase(), ...words.map((word) => word[0]!.toUpperCase() + word.slice(1))].join("");
}

/** A request whose fields all have defaults needs no body. */
function isRequired({ request, raw }: Description): boolean {
  return raw !== undefined || request?.safeParse({}).success === false;
}

function queryParameters(query: z.ZodType | undefined): Json[] {
  if (query === undefined) return [];
  const { properties = {} } = schemaOf(query, "output") as { properties?: Record<string, Json> };
  return Object.entries(properties).map(([name, schema]) => ({ name, in: "query", schema }));
}

function contents(bodies: Record<string, z.ZodType>): Json {
  return Object.fromEntries(
    Object.entries(bodies).map(([mediaType, schema]) => [mediaType, { schema: schemaOf(schema, "input") }]),
  );
}

function responses({ reply, others = {}, role, method, request, raw, query }: Description): Json {
  const body = request !== undefined || raw !== undefined;
  const problems = [
    ...(body || query !== undefined || method !== "GET" ? [400] : []),
    ...(role === "plane" || role === "admin" ? [401, 429] : []),
    403,
    ...(body ? [413, 415] : []),
    500,
    ...(role === "plane" || role === "admin" ? [503] : []),
  ];
  const listed = new Map<number, Json>();
  listed.set(200, { description: "Success.", content: replyContent(reply, raw) });
  for (const status of problems) listed.set(status, problemResponse(summaries[status] ?? ""));
  for (const [status, other] of Object.entries(others)) {
    listed.set(
      Number(status),
      other.reply === undefined
        ? problemResponse(other.summary)
        : { description: other.summary, content: replyContent(other.reply) },
    );
  }
  return Object.fromEntries([...listed].sort(([a], [b]) => a - b).map(([status, value]) => [String(status), value]));
}

/** Requests in plain text get replies in plain text. */
function replyContent(reply: Description["reply"], raw: Description["raw"] = {}): Json {
  if (!(reply instanceof z.ZodType)) return { [reply.text]: { schema: { type: "string" } } };
  const text = "text/plain" in raw ? { "text/plain": { schema: { type: "string" } } } : {};
  return { "application/json": { schema: schemaOf(reply, "output") }, ...text };
}

function problemResponse(description: string): Json {
  return { description, content: { "application/json": { schema: { $ref: "#/components/schemas/Problem" } } } };
}

function schemaOf(schema: z.ZodType, io: "input" | "output"): Json {
  const { $schema: _, ...rest } = z.toJSONSchema(schema, { io, target: "draft-2020-12" }) as Json;
  return rest;
}
