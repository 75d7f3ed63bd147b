/** What a request says of itself, read from nginx's own memory: nothing is copied but what is needed. */
import { UNKNOWN_LENGTH } from "../../../core/cost.js";
import type { IdentityClaims } from "../../../core/identity.js";
import { wholeNumber } from "../../../core/platform.js";
import { type Bytes, base, ffi, type HeaderLine, type HeaderLines, ngx, type RequestPointer } from "../ngx.js";
import { worker } from "../state.js";
import { prepareVariables, variableBegins } from "./variables.js";

/** The head of the request at hand. One table for all: nobody keeps it beyond the turn of the event loop that filled it. */
export interface Head {
  claims: IdentityClaims;
  /** As `estimate` wants it. */
  contentLength: number;
  headers: number;
  apiKeys: number;
}

export const head = {
  claims: {
    hopTrusted: false,
    appHeader: "",
    appHeaderCount: 0,
    userHeader: "",
    userHeaderCount: 0,
    apiKeyApp: "",
  },
  contentLength: 0,
  headers: 0,
  apiKeys: 0,
} as Head;

interface Memory {
  lines: HeaderLines;
  room: number;
  cut: Bytes;
  /** Whether a line with a name of that length may matter. */
  lengths: { [length: number]: boolean | undefined };
}

const memory = {} as Memory;

/** Room for most heads; more is made when one needs it. */
const USUAL_HEADERS = 64;

export function prepareReading(): void {
  ffi.cdef("int memcmp(const void *a, const void *b, size_t length);");
  prepareVariables();
  memory.cut = ffi.new("int[1]");
  memory.lengths = {};
  const { appHeader, userHeader, apiKeyHeader } = worker.settings.identity;
  for (const name of [appHeader, userHeader, apiKeyHeader, CONTENT_LENGTH, TRANSFER_ENCODING]) {
    memory.lengths[name.length] = true;
  }
  makeRoom(USUAL_HEADERS);
}

/** Never given back to Lua's collector: `store` keeps it alive. */
function makeRoom(count: number): void {
  memory.lines = ffi.new("ngx_http_lua_ffi_table_elt_t[?]", count) as unknown as HeaderLines;
  memory.room = count;
}

const ONE = 49;

/** Begins to read the request at hand into `head`: how many lines there are for `readLine`. */
export function beginHead(): number {
  const { claims } = head;
  const request = currentRequest();
  const count = ffi.C.ngx_http_lua_ffi_req_get_headers_count(request, 0, memory.cut);
  if (count > memory.room) makeRoom(count);
  ffi.C.ngx_http_lua_ffi_req_get_headers(request, memory.lines, count, 0);
  claims.appHeaderCount = 0;
  claims.userHeaderCount = 0;
  claims.apiKeyApp = "";
  claims.hopTrusted = variableBegins(request, "tollgate_trusted", ONE);
  head.apiKeys = 0;
  head.contentLength = 0;
  head.headers = count;
  return count;
}

/** Most lines are none that matter here: their length tells, before anything is compared. */
export function readLine(index: number): void {
  const line = memory.lines[index]!;
  if (memory.lengths[line.key.len] === undefined) return;
  const { appHeader, userHeader, apiKeyHeader } = worker.settings.identity;
  const { claims } = head;
  if (isNamed(line, appHeader)) {
    claims.appHeader = textOf(line);
    claims.appHeaderCount = claims.appHeaderCount + 1;
  } else if (isNamed(line, userHeader)) {
    claims.userHeader = textOf(line);
    claims.userHeaderCount = claims.userHeaderCount + 1;
  } else if (isNamed(line, apiKeyHeader)) {
    head.apiKeys = head.apiKeys + 1;
    claims.apiKeyApp = head.apiKeys > 1 ? "" : appOfKey(textOf(line));
  } else if (isNamed(line, CONTENT_LENGTH)) {
    head.contentLength = wholeNumber(textOf(line));
  } else if (isNamed(line, TRANSFER_ENCODING)) {
    head.contentLength = UNKNOWN_LENGTH;
  }
}

/** nginx has the names in lower case. */
function isNamed(line: HeaderLine, name: string): boolean {
  return line.key.len === name.length && ffi.C.memcmp(line.key.data, name, name.length) === 0;
}

const CONTENT_LENGTH = "content-length";
const TRANSFER_ENCODING = "transfer-encoding";

function textOf(line: HeaderLine): string {
  return ffi.string(line.value.data, line.value.len);
}

function appOfKey(key: string): string {
  return worker.settings.identity.apiKeys[ngx.encode_base64(ngx.sha1_bin(key))] ?? "";
}

export function currentRequest(): RequestPointer {
  return base.get_request() as RequestPointer;
}
