/** The name of a node that is not configured: host name and process id, so that two proxies on one machine are two nodes. */
import { luaString } from "./library.js";

interface CharBuffer {
  readonly __chars: never;
}

/** LuaJIT's interface to C. */
interface Ffi {
  readonly C: {
    gethostname(this: void, into: CharBuffer, size: number): number;
    getpid(this: void): number;
  };
  cdef(this: void, declarations: string): void;
  "new"(this: void, type: "char[?]", count: number): CharBuffer;
  /** Up to the first NUL. */
  string(this: void, data: CharBuffer): string;
}

declare function require(this: void, module: "ffi"): Ffi;

const ffi = require("ffi");
ffi.cdef("int gethostname(char *name, size_t size); int getpid(void);");
const SIZE = 256;

/** `plane` is used if the host has no name. */
export function hostAndProcess(plane: string): string {
  const name = ffi.new("char[?]", SIZE);
  ffi.C.gethostname(name, SIZE - 1);
  const host = luaString.gsub(luaString.sub(ffi.string(name), 1, 80), "[^A-Za-z0-9._-]", "-");
  return (host === "" ? plane : host) + luaString.format("-%d", processId());
}

export function processId(): number {
  return ffi.C.getpid();
}
