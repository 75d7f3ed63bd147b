/** A program that uses and closes a store. It must then exit by itself. */
import { openTestStore } from "./store-scripts.js";

const store = openTestStore({ url: process.argv[2] ?? "", deadlineMs: 500 });
const outcome = await store.run("echo", [], ["hello"]).then(
  (reply) => reply.join(),
  (error) => error.kind,
);
await store.close();
console.log(outcome);
