/** A process that owns an embedded store and serves it to its parent, as a primary does to a worker. */
import { createEmbeddedStore } from "../../src/store/embedded/embedded-store.js";
import { serveStore } from "../../src/store/ipc/serve-store.js";

serveStore(createEmbeddedStore(), process);
process.on("disconnect", () => process.exit());
process.send?.("ready");
