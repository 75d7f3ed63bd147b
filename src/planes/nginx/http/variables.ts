/** Variables of nginx, read where they lie: `ngx.var` would make a text of each. */

import { type Address, type Bytes, base, type ErrorPointer, ffi, type RequestPointer, toNumber } from "../ngx.js";
import { readNumber } from "./memory.js";

interface Found {
  /** Where nginx leaves the address of a value, and its length. */
  value: { readonly [index: number]: Bytes };
  length: { readonly [index: number]: Address };
  lowerCase: Bytes;
  problem: ErrorPointer;
}

const found = {} as Found;
/** No name is longer. */
const LONGEST_NAME = 32;

export function prepareVariables(): void {
  found.value = ffi.new("char *[1]") as unknown as Found["value"];
  found.length = ffi.new("size_t[1]") as unknown as Found["length"];
  found.lowerCase = ffi.new("char[?]", LONGEST_NAME);
  found.problem = base.get_errmsg_ptr();
}

function find(request: RequestPointer, name: string): boolean {
  const { value, length, lowerCase, problem } = found;
  const { C } = ffi;
  return C.ngx_http_lua_ffi_var_get(request, name, name.length, lowerCase, 0, value, length, problem) === 0;
}

/** A variable that is a whole number; 0 where it is not set. */
export function variableNumber(request: RequestPointer, name: string): number {
  return find(request, name) ? readNumber(found.value[0]!, toNumber(found.length[0]!)) : 0;
}

/** Whether a variable begins with that byte. */
export function variableBegins(request: RequestPointer, name: string, byte: number): boolean {
  return find(request, name) && toNumber(found.length[0]!) > 0 && found.value[0]![0] === byte;
}
