// The workflows of `bench durable` for Restate, as its SDK for JavaScript has them. Started as `node restate.mjs PORT`, by the folder into
// which `cargo xtask bench` has installed the SDK.
import { serve, workflow } from "@restatedev/restate-sdk";

// Node 20 lacks it, and the SDK needs no more of Node 22 than this.
Promise.withResolvers ??= function () {
  const made = {};
  made.promise = new this((resolve, reject) => Object.assign(made, { resolve, reject }));
  return made;
};

// Nanoseconds since 1970, of this process's steady clock.
const now = () => (performance.timeOrigin + performance.now()) * 1e6;
// When sleeps have begun, and how often a handler was begun: outside of the journal, so that they are not in what is measured.
const begun = new Map();
const visits = new Map();

// Waits, and says by how many nanoseconds it was late.
async function late(ctx, milliseconds) {
  if (!begun.has(ctx.key)) begun.set(ctx.key, now());
  await ctx.sleep(milliseconds);
  const over = now() - begun.get(ctx.key) - milliseconds * 1e6;
  begun.delete(ctx.key);
  return over;
}

async function steps(ctx, count) {
  let done = 0;
  for (let number = 0; number < count; number++) {
    done += await ctx.run(`step ${number}`, () => 1);
  }
  return done;
}

const ways = {
  nothing: async () => 0,
  steps: (ctx, order) => steps(ctx, order.count),
  late: (ctx, order) => late(ctx, order.milliseconds),
  // An answer to an event, after so many steps.
  event: async (ctx, order) => {
    await steps(ctx, order.count ?? 0);
    ctx.set("published", "17");
    return Number(await ctx.promise("go"));
  },
  // A table of so many MiB in a local variable, of which an event asks for one word.
  index: async (ctx, order) => {
    const words = new Uint32Array(order.mebibytes * 262144);
    for (let at = 0; at < words.length; at++) words[at] = Math.imul(at, 0x9e3779b9);
    ctx.set("published", "17");
    const at = Number(await ctx.promise("go"));
    return words[at] === Math.imul(at, 0x9e3779b9) >>> 0 ? 1 : 0;
  },
  // Takes another way when it is run again, as a program does that asks for a random number or the time.
  whim: async (ctx) => {
    const visit = visits.get(ctx.key) ?? 0;
    visits.set(ctx.key, visit + 1);
    if (visit === 0) {
      await ctx.run("one way", () => 1);
      throw new Error("the process is lost");
    }
    await ctx.sleep(1);
    return 1;
  },
  // A computation as one step; how often it was begun shows what a loss costs.
  compute: async (ctx) =>
    ctx.run("compute", () => {
      const visit = visits.get(ctx.key) ?? 0;
      visits.set(ctx.key, visit + 1);
      if (visit === 0) throw new Error("the process is lost in its midst");
      return visit + 1;
    }),
};

const bench = workflow({
  name: "bench",
  handlers: {
    run: (ctx, order) => ways[order.what](ctx, order),
    send: (ctx, value) => ctx.promise("go").resolve(value),
    published: (ctx) => ctx.get("published"),
  },
});

serve({ services: [bench], port: Number(process.argv[2]) });
