/** A process with an embedded store that it offers to its parent, like a primary to its workers. */
import { createEmbeddedStore } from "../../src/store/embedded/embedded-store.js";
import { serveStore } from "../../src/store/ipc/serve-store.js";

serveStore(createEmbeddedStore(), process);
process.on("disconnect", () => process.exit());
process.send?.("ready");
