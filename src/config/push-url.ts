/** Where metrics are pushed to: `statsd://host:port` or `graphite://host:port`, with options in the query. */

export interface PushDestination {
  kind: "statsd" | "graphite";
  host: string;
  port: number;
  /** Precedes each name. */
  prefix: string;
  /** Labels as tags; otherwise their values are parts of the name. */
  tags: boolean;
}

const DEFAULT_PORTS = { statsd: 8125, graphite: 2003 };
const OPTIONS = ["prefix", "tags"];

/** Throws an error with the reason if the URL is invalid. */
export function parsePushUrl(text: string): PushDestination {
  const url = URL.canParse(text) ? new URL(text) : undefined;
  const kind = url?.protocol.slice(0, -1);
  if (url === undefined || (kind !== "statsd" && kind !== "graphite") || url.hostname === "") {
    throw new Error("must be statsd://host:port or graphite://host:port");
  }
  if (url.username !== "" || (url.pathname !== "" && url.pathname !== "/") || url.hash !== "") {
    throw new Error("must have only a host, a port and the options prefix and tags");
  }
  for (const name of url.searchParams.keys()) {
    if (!OPTIONS.includes(name))
      throw new Error(`has the unknown option ${JSON.stringify(name.slice(0, 64))}: prefix and tags are known`);
  }
  const prefix = url.searchParams.get("prefix") ?? "";
  if (!/^[A-Za-z0-9_.-]{0,100}$/.test(prefix))
    throw new Error("has a prefix with characters other than A–Z a–z 0–9 _ . -");
  const tags = url.searchParams.get("tags") ?? "false";
  if (tags !== "true" && tags !== "false") throw new Error("has a value of tags other than true and false");
  const host = url.hostname.replace(/^\[(.*)\]$/, "$1");
  return { kind, host, port: url.port === "" ? DEFAULT_PORTS[kind] : Number(url.port), prefix, tags: tags === "true" };
}
