/** The target of a request: what limits compare, and what the middleware rejects. */
import { isAcceptedPath, pathOf } from "../../../core/path.js";
import { isPlainPath } from "../../../core/platform.js";

/** Without the host of an absolute target. */
export function relative(target: string): string {
  if (target.charCodeAt(0) === 47) return target;
  const rest = /^https?:\/\/[^/?#\\@]*(?=[/?]|$)(.*)$/is.exec(target)?.[1];
  return rest === undefined || rest.startsWith("/") ? (rest ?? target) : `/${rest}`;
}

/** Frameworks read these differently, and the library cannot pass on another path. */
export function isInvalidTarget(target: string): boolean {
  const path = pathOf(target);
  // The target of OPTIONS for the whole server is an asterisk.
  if (isPlainPath(path) || target === "*") return target.includes("#");
  const hasDots = path.split("/").some((segment) => DOT_SEGMENT.test(segment));
  return hasDots || path.startsWith("//") || target.includes("#") || !isAcceptedPath(path, ACCEPTED);
}

const DOT_SEGMENT = /^(?:\.|%2e){1,2}$/i;
const ACCEPTED = { keepsEncodedSlashes: true, strict: false };
