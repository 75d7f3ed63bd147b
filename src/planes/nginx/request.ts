/** What a request says of itself, read from nginx's own memory: nothing is copied but what is needed. */
import { UNKNOWN_LENGTH } from "../../core/cost.js";
import { wholeNumber } from "../../core/host.js";
import type { IdentityClaims } from "../../core/identity.js";
import {
  type Bytes,
  base,
  ffi,
  type HeaderLine,
  type HeaderLines,
  luaString,
  ngx,
  type RequestPointer,
} from "./ngx.js";
import { worker } from "./state.js";

/** The head of the request at hand. One table for all: nobody keeps it beyond the turn of the event loop that filled it. */
export interface Head {
  request: RequestPointer;
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
}

const memory = {} as Memory;

/** Room for most heads; more is made when one needs it. */
const USUAL_HEADERS = 64;

export function prepareReading(): void {
  memory.cut = ffi.new("int[1]");
  makeRoom(USUAL_HEADERS);
}

/** Never given back to Lua's collector: `store` keeps it alive. */
function makeRoom(count: number): void {
  memory.lines = ffi.new("ngx_http_lua_ffi_table_elt_t[?]", count) as unknown as HeaderLines;
  memory.room = count;
}

function isNamed(text: string, name: string): boolean {
  return text === name || luaString.lower(text) === name;
}

/** Begins to read the request at hand into `head`: how many lines there are for `readLine`. */
export function beginHead(): number {
  const { claims } = head;
  const request = currentRequest();
  const count = ffi.C.ngx_http_lua_ffi_req_get_headers_count(request, 0, memory.cut);
  if (count > memory.room) makeRoom(count);
  ffi.C.ngx_http_lua_ffi_req_get_headers(request, memory.lines, count, 1);
  claims.appHeaderCount = 0;
  claims.userHeaderCount = 0;
  claims.apiKeyApp = "";
  claims.hopTrusted = ngx.var.tollgate_trusted === "1";
  head.request = request;
  head.apiKeys = 0;
  head.contentLength = 0;
  head.headers = count;
  return count;
}

/** Most lines are none that matter here: their length tells, before anything is made a text. */
export function readLine(index: number): void {
  const { appHeader, userHeader, apiKeyHeader } = worker.settings.identity;
  const line = memory.lines[index]!;
  const length = line.key.len;
  if (
    length !== appHeader.length &&
    length !== userHeader.length &&
    length !== apiKeyHeader.length &&
    length !== CONTENT_LENGTH.length &&
    length !== TRANSFER_ENCODING.length
  ) {
    return;
  }
  const { claims } = head;
  const name = ffi.string(line.key.data, length);
  if (isNamed(name, appHeader)) {
    claims.appHeader = textOf(line);
    claims.appHeaderCount = claims.appHeaderCount + 1;
  } else if (isNamed(name, userHeader)) {
    claims.userHeader = textOf(line);
    claims.userHeaderCount = claims.userHeaderCount + 1;
  } else if (isNamed(name, apiKeyHeader)) {
    head.apiKeys = head.apiKeys + 1;
    claims.apiKeyApp = head.apiKeys > 1 ? "" : appOfKey(textOf(line));
  } else if (isNamed(name, CONTENT_LENGTH)) {
    head.contentLength = wholeNumber(textOf(line));
  } else if (isNamed(name, TRANSFER_ENCODING)) {
    head.contentLength = UNKNOWN_LENGTH;
  }
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
