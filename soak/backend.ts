/** The HTTP backend of a soak test: responds after the whole request, with as many bytes and the cost that the query asks for. */
import { type Backend, startBackend } from "../test/support/http-backend.js";

export async function startSoakBackend(): Promise<Backend> {
  const backend = await startBackend((incoming, response) => {
    const query = new URLSearchParams(incoming.url?.split("?")[1]);
    incoming.resume();
    incoming.on("error", () => response.destroy());
    incoming.on("end", () => {
      const cost = query.get("cost");
      if (cost !== null) response.setHeader("X-Cost", cost);
      response.end(Buffer.alloc(Math.min(Number(query.get("bytes") ?? 5), 16 * 1_048_576), "x"));
    });
  });
  // A proxy may send a request on a connection that the backend is about to close. One that keeps them does not have that race.
  backend.server.keepAliveTimeout = 0;
  return backend;
}
