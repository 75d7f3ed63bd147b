/**
 * Headers of a response, put straight into nginx's list of them. The function that Lua has for it copies, escapes and looks
 * up each name and value: for the five headers of a decision that was a third of all that a decision cost.
 *
 * Where the list lies within a request differs between builds of nginx. Each worker finds it by itself: after a header was
 * set by Lua's function it looks for a list that has all the marks of nginx's and ends with that very header. Where there
 * is none, Lua's function goes on being used.
 */
import { luaString } from "../../lua/library.js";
import { type Address, type Bytes, base, ffi, type Place, type RequestPointer, toNumber } from "../ngx.js";

/** ngx_str_t and ngx_list_t of nginx, and the beginning of ngx_table_elt_t. */
const DECLARATIONS = `
typedef struct { size_t length; const unsigned char *data; } tollgate_text;
typedef struct { uintptr_t hash; tollgate_text name; tollgate_text value; } tollgate_line;
typedef struct { void *first; uintptr_t count; void *next; } tollgate_part;
typedef struct { tollgate_part *last; tollgate_part part; size_t size; uintptr_t room; void *pool; } tollgate_list;
unsigned char *tollgate_allocate(void *pool, size_t size) __asm__("ngx_pnalloc");
uintptr_t tollgate_hash(const unsigned char *text, size_t length) __asm__("ngx_hash_key_lc");
`;

/** Since 1.23 a header has one more word, and is longer by that. */
const SIZE = 48;
const LATER_SIZE = 56;

const layout = (offset: number, size: number) => `
typedef struct {
  uintptr_t hash; tollgate_text name; tollgate_text value; const unsigned char *lower_case;
  ${size === LATER_SIZE ? "void *next;" : ""}
} tollgate_header;
typedef struct { char before[${luaString.format("%d", offset)}]; tollgate_list headers; } tollgate_response;
`;

interface Text {
  length: number;
  data: Bytes;
}

interface Header {
  hash: Address;
  name: Text;
  value: Text;
  lower_case: Bytes;
}

export interface Headers {
  readonly [index: number]: Header;
}

interface Part {
  readonly first: Address;
  count: Address | number;
}

interface HeaderList {
  readonly last: Part;
  readonly part: Part;
  readonly size: Address;
  readonly room: Address;
  readonly pool: { readonly __pool: never };
}

interface Native {
  readonly C: {
    tollgate_allocate(this: void, pool: HeaderList["pool"], size: number): Place | undefined;
    tollgate_hash(this: void, text: Bytes, length: number): Address;
  };
  "new"(this: void, type: "tollgate_header[?]", count: number): Headers;
  cast(this: void, type: "tollgate_line *", address: number): Header;
  cast(this: void, type: "tollgate_list *", address: number): HeaderList;
  cast(this: void, type: "tollgate_header *", first: Address): Headers;
  cast(this: void, type: "tollgate_response *", request: RequestPointer): { readonly headers: HeaderList };
  cast(this: void, type: "uintptr_t", pointer: Address | RequestPointer): Address;
  cast(this: void, type: "uintptr_t *", request: RequestPointer): { readonly [index: number]: Address };
  copy(this: void, to: Headers, from: Headers, bytes: number): void;
  abi(this: void, what: "64bit"): boolean;
}

const native = ffi as unknown as Native;

interface State {
  /** The list was found. */
  found: boolean;
  /** There is no use in looking for it any more. */
  hidden: boolean;
  names: readonly string[];
  /** All headers but for their values; and the bytes of all. */
  headers: Headers;
  bytes: number;
  /** Names in memory that stays for as long as the worker does. */
  texts: Bytes[];
}

const state = { found: false, hidden: false, bytes: 0, texts: [] as Bytes[] } as State;

const problem = base.get_errmsg_ptr();

/** For responses that have headers of these names, in this order. */
export function prepareHeaders(names: readonly string[]): void {
  ffi.cdef(DECLARATIONS);
  state.names = names;
  state.hidden = !native.abi("64bit");
}

/** Adds a header beside those that are there, by Lua's function. */
export function addHeader(request: RequestPointer, name: string, value: string): void {
  ffi.C.ngx_http_lua_ffi_set_resp_header(request, name, name.length, 0, value, value.length, undefined, 0, 0, problem);
}

/** Whether `headersOf` may be called. */
export function headersAreKnown(): boolean {
  return state.found;
}

export function headersOf(request: RequestPointer): HeaderList {
  return native.cast("tollgate_response *", request).headers;
}

/** Memory that lasts as long as the request. */
export function allocate(list: HeaderList, bytes: number): Place | undefined {
  return native.C.tollgate_allocate(list.pool, bytes);
}

/** Adds all headers, whose values are to follow at once. Undefined where there is no room for them in one piece. */
export function addHeaders(list: HeaderList): Headers | undefined {
  const { last } = list;
  const count = toNumber(last.count as Address);
  if (count + state.names.length > toNumber(list.room)) return undefined;
  const first = (native.cast("tollgate_header *", last.first) as unknown as number) + count;
  const headers = first as unknown as Headers;
  native.copy(headers, state.headers, state.bytes);
  last.count = count + state.names.length;
  return headers;
}

/** The value is not copied: it lies in memory of the request. */
export function setValue(headers: Headers, index: number, value: Place, length: number): void {
  const header = headers[index]!;
  header.value.data = value;
  header.value.length = length;
}

/** nginx's requests are longer than that, and have the list in their first half. */
const SEARCHED_WORDS = 128;
const WORD = 8;
const LIST_WORDS = 7;

/** Looks for the list of a response on which Lua's function has set this header last. */
export function findHeaders(request: RequestPointer, name: string, value: string): void {
  if (state.hidden) return;
  state.hidden = true;
  const words = native.cast("uintptr_t *", request);
  const start = toNumber(native.cast("uintptr_t", request));
  for (let at = 0; at + LIST_WORDS <= SEARCHED_WORDS; at++) {
    const [last, count, next] = [toNumber(words[at]!), toNumber(words[at + 2]!), toNumber(words[at + 3]!)];
    const [size, room] = [toNumber(words[at + 4]!), toNumber(words[at + 5]!)];
    // It has one part as yet, to which it points itself.
    const isList = last === start + (at + 1) * WORD && next === 0 && (size === SIZE || size === LATER_SIZE);
    if (isList && count > 0 && count <= room && endsWith(start + at * WORD, name, value)) {
      remember(at * WORD, size);
      return;
    }
  }
}

function endsWith(address: number, name: string, value: string): boolean {
  const { part, size } = native.cast("tollgate_list *", address);
  const { first, count } = part;
  const before = (toNumber(count as Address) - 1) * toNumber(size);
  const line = native.cast("tollgate_line *", toNumber(native.cast("uintptr_t", first)) + before);
  return spelled(line.name) === name && spelled(line.value) === value;
}

function spelled({ data, length }: Text): string {
  return ffi.string(data, length);
}

function remember(offset: number, size: number): void {
  ffi.cdef(layout(offset, size));
  const { names } = state;
  const headers = native.new("tollgate_header[?]", names.length);
  for (let i = 0; i < names.length; i++) {
    const name = names[i]!;
    const header = headers[i]!;
    header.name.data = lasting(name);
    header.name.length = name.length;
    header.lower_case = lasting(luaString.lower(name));
    header.hash = native.C.tollgate_hash(header.lower_case, name.length);
  }
  state.headers = headers;
  state.bytes = names.length * size;
  state.found = true;
}

function lasting(text: string): Bytes {
  const bytes = ffi.new("unsigned char[?]", text.length);
  ffi.copy(bytes as Place, text, text.length);
  state.texts.push(bytes);
  return bytes;
}
