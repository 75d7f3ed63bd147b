/** The decisions that data planes written in Lua use: the entry of the LuaJIT bundle. */
export * from "./bucket.js";
export * from "./cost.js";
export * from "./degradation.js";
export * from "./emergency.js";
export * from "./identity.js";
export * from "./lease.js";
export * from "./platform.js";
