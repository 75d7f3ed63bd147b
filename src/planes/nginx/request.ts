/** What a request says of itself, read from nginx's own memory: nothing is copied but what is needed. */
import { UNKNOWN_LENGTH } from "../../core/cost.js";
import { wholeNumber } from "../../core/host.js";
import type { IdentityClaims } from "../../core/identity.js";
import { type Bytes, base, ffi, type HeaderLines, luaString, ngx, type RequestPointer } from "./ngx.js";
import { worker } from "./state.js";

/** The head of the request at hand. One table for all: nobody keeps it beyond the call that filled it. */
export interface Head {
  claims: IdentityClaims;
  /** As `estimate` wants it. */
  contentLength: number;
  headers: number;
}

export const head: Head = {
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
};

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

/** Reads identity and length of the request at hand into `head`. */
export function readHead(request: RequestPointer): void {
  const { identity } = worker.settings;
  const { claims } = head;
  const { appHeader, userHeader, apiKeyHeader } = identity;
  const count = ffi.C.ngx_http_lua_ffi_req_get_headers_count(request, 0, memory.cut);
  if (count > memory.room) makeRoom(count);
  const lines = memory.lines;
  ffi.C.ngx_http_lua_ffi_req_get_headers(request, lines, count, 1);
  claims.appHeaderCount = 0;
  claims.userHeaderCount = 0;
  claims.apiKeyApp = "";
  let keys = 0;
  head.contentLength = 0;
  head.headers = count;
  const [appLength, userLength, keyLength] = [appHeader.length, userHeader.length, apiKeyHeader.length];
  for (let i = 0; i < count; i++) {
    const { key, value } = lines[i]!;
    const length = key.len;
    if (length === appLength || length === userLength || length === keyLength || length === 14 || length === 17) {
      const name = ffi.string(key.data, length);
      if (isNamed(name, appHeader)) {
        claims.appHeader = ffi.string(value.data, value.len);
        claims.appHeaderCount = claims.appHeaderCount + 1;
      } else if (isNamed(name, userHeader)) {
        claims.userHeader = ffi.string(value.data, value.len);
        claims.userHeaderCount = claims.userHeaderCount + 1;
      } else if (isNamed(name, apiKeyHeader)) {
        keys = keys + 1;
        claims.apiKeyApp = appOfKey(ffi.string(value.data, value.len));
      } else if (isNamed(name, "content-length")) {
        head.contentLength = wholeNumber(ffi.string(value.data, value.len));
      } else if (isNamed(name, "transfer-encoding")) {
        head.contentLength = UNKNOWN_LENGTH;
      }
    }
  }
  if (keys > 1) claims.apiKeyApp = "";
  claims.hopTrusted = ngx.var.tollgate_trusted === "1";
}

function appOfKey(key: string): string {
  return worker.settings.identity.apiKeys[ngx.encode_base64(ngx.sha1_bin(key))] ?? "";
}

/** The request at hand, and a number that no other request has while it lasts. */
export function currentRequest(): RequestPointer {
  return base.get_request() as RequestPointer;
}
