// An AssemblyScript program for WASI, with its shim: arguments, standard input, a clock, random numbers, and an end that is no success.
function sieve(limit: i32): i32 {
  const composite = new Uint8Array(limit + 1);
  let count = 0;
  for (let number = 2; number <= limit; number++) {
    if (composite[number]) continue;
    count++;
    for (let multiple = number * 2; multiple <= limit; multiple += number) composite[multiple] = 1;
  }
  return count;
}

const words = process.argv.slice(1);
console.log("arguments: " + words.join(" "));
console.log("primes to 100000: " + sieve(100000).toString());
const input = process.stdin.read(new ArrayBuffer(64), 0);
console.log("bytes of input: " + input.toString());
console.log("a clock: " + (Date.now() > 1_700_000_000_000).toString());
console.log("random: " + (Math.random() != Math.random()).toString());
process.stderr.write("to standard error\n");
if (words.includes("fail")) process.exit(3);
