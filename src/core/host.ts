/** The host of a request in the form in which routes and limits compare it. */
import { cutText, findText, lowerText } from "./platform.js";

/** In lower case, without the port and a dot at the end. An IPv6 address keeps its brackets. */
export function hostName(host: string): string {
  const bracket = cutText(host, 0, 1) === "[" ? findText(host, "]", 0) + 1 : 0;
  const colon = bracket > 0 ? bracket : findText(host, ":", 0);
  const end = colon > 0 ? colon : host.length;
  const isDotted = end > 1 && cutText(host, end - 1, end) === ".";
  return lowerText(cutText(host, 0, isDotted ? end - 1 : end));
}
