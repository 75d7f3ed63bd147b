/** The OpenAPI document of the control listener, generated from the schemas that validate requests. */
import * as z from "zod";
import { problemReply } from "../operations/contract/contract.js";
import type { Endpoint, Role } from "../operations/endpoint.js";

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
  viewer: "Requires an allowed address and the token of an operator or a viewer.",
  admin: "Requires an allowed address and the token of an operator.",
};

export function openApiDocument(endpoints: readonly Endpoint[], version: string): Json {
  const paths: Record<string, Json> = {};
  for (const endpoint of endpoints) {
    if (endpoint.hidden === true) continue;
    paths[endpoint.path] = { ...paths[endpoint.path], [endpoint.method.toLowerCase()]: operation(endpoint) };
  }
  return {
    openapi: "3.1.0",
    info: { title: "Tollgate control listener", version },
    paths,
    components: {
      schemas: { Problem: schemaOf(problemReply, "output") },
      securitySchemes: {
        admin: { type: "http", scheme: "bearer", description: "control.admin_token or control.operators" },
        viewer: { type: "http", scheme: "bearer", description: "control.viewers" },
        plane: { type: "http", scheme: "bearer", description: "control.plane_token or control.planes" },
      },
    },
  };
}

function operation(endpoint: Endpoint): Json {
  const { method, path, role, summary, query, request, text, action } = endpoint;
  const inPath = [...path.matchAll(/\{([^}]+)\}/g)].map(([, name]) => name);
  const inQuery = Object.entries(query === undefined ? {} : Object(schemaOf(query, "output").properties));
  const parameters = [
    ...inPath.map((name) => ({ name, in: "path", required: true, schema: { type: "string" } })),
    ...inQuery.map(([name, schema]) => ({ name, in: "query", schema })),
    ...(action === undefined ? [] : [operatorHeader]),
  ];
  return {
    operationId: operationId(method, path),
    summary,
    description: roles[role],
    ...(parameters.length === 0 ? {} : { parameters }),
    ...(request === undefined
      ? {}
      : { requestBody: { required: isRequired(request, text), content: content(schemaOf(request, "input"), text) } }),
    responses: responses(endpoint),
    ...(role in security ? { security: security[role] } : {}),
  };
}

const security: { [role in Role]?: Json[] } = {
  admin: [{ admin: [] }],
  viewer: [{ admin: [] }, { viewer: [] }],
  plane: [{ plane: [] }],
};

const operatorHeader = {
  name: "X-Operator",
  in: "header",
  schema: { type: "string", maxLength: 128 },
  description: "Who makes the change.",
};

function operationId(method: string, path: string): string {
  const words = path.replace(/^\/admin\/ratelimit/, "").match(/[A-Za-z0-9]+/g) ?? [];
  return [method.toLowerCase(), ...words.map((word) => word.charAt(0).toUpperCase() + word.slice(1))].join("");
}

/** A JSON request whose fields all have defaults needs no body. */
function isRequired(request: z.ZodType, text: Endpoint["text"]): boolean {
  return text !== undefined || !request.safeParse({}).success;
}

function responses({ reply, others = {}, role, method, request, text, query }: Endpoint): Json {
  const hasBody = request !== undefined;
  const hasToken = role in security;
  const problems = [
    ...(hasBody || query !== undefined || method !== "GET" ? [400] : []),
    ...(hasToken ? [401, 429, 503] : []),
    ...(hasBody ? [413, 415] : []),
    403,
    500,
  ];
  const schema = (of: z.ZodType) => content(schemaOf(of, "output"), text);
  const problem = content({ $ref: "#/components/schemas/Problem" });
  // An object lists its integer keys in ascending order.
  return {
    ...Object.fromEntries(problems.map((status) => [status, { description: summaries[status], content: problem }])),
    ...Object.fromEntries(
      Object.entries(others).map(([status, other]) => [
        status,
        { description: other.summary, content: other.reply === undefined ? problem : schema(other.reply) },
      ]),
    ),
    200: {
      description: "Success.",
      content: reply instanceof z.ZodType ? schema(reply) : { [reply.text]: { schema: { type: "string" } } },
    },
  };
}

/** Requests in plain text get replies in plain text. */
function content(schema: Json, text?: Endpoint["text"]): Json {
  const plain = text === undefined ? {} : { "text/plain": { schema: { type: "string" } } };
  return { "application/json": { schema }, ...plain };
}

function schemaOf(schema: z.ZodType, io: "input" | "output"): Json {
  const { $schema: _, ...rest } = z.toJSONSchema(schema, { io, target: "draft-2020-12" }) as Json;
  return rest;
}
