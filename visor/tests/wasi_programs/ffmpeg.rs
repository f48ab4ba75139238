//! FFmpeg's audio. Its own tests (FATE) are those for which it makes the input: each codec and each container, with the hashes that its source has.

use super::*;
use std::io::Write as _;
use std::process::{Command, Stdio};

/// What its tests begin each command with, and what they have before each file.
const PROGRAM: [&str; 5] = ["-nostdin", "-nostats", "-y", "-v", "error"];
const EXACT: [&str; 6] = ["-flags", "+bitexact", "-fflags", "+bitexact", "-threads", "1"];

/// Runs it with parts of a command, natively and as WebAssembly, and compares the two.
#[track_caller]
fn ffmpeg(parts: &[&[&str]], before: &Files) -> Ran {
    let arguments = [&PROGRAM[..], &parts.concat()].concat();
    let [native, guest] = ["native/ffmpeg.so", "ffmpeg.so"].map(|image| {
        let mut ran = ran(&part(image), &arguments, "", before);
        // Some messages say where something lies in memory.
        ran.err.iter_mut().for_each(|line| *line = without_address(line));
        ran
    });
    assert_eq!(guest, native, "{arguments:?}: WebAssembly, and native");
    guest
}

/// A line without ` @ 0x…`.
fn without_address(line: &str) -> String {
    let Some((before, after)) = line.split_once(" @ 0x") else { return line.to_owned() };
    format!("{before}{}", after.trim_start_matches(|digit: char| digit.is_ascii_hexdigit()))
}

fn words(text: &str) -> Vec<&str> {
    text.split_whitespace().collect()
}

/// The MD5 of bytes, as its tests have it.
fn md5(bytes: &[u8]) -> String {
    let mut program = Command::new("md5sum").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("md5sum");
    program.stdin.take().expect("piped").write_all(bytes).expect("it reads all");
    let printed = program.wait_with_output().expect("it ends").stdout;
    String::from_utf8_lossy(&printed[..32]).into_owned()
}

/// Lines of a test's reference, as they would be for these bytes.
fn hash_and_size(name: &str, bytes: &[u8]) -> [String; 2] {
    [format!("{} *{name}", md5(bytes)), format!("{} {name}", bytes.len())]
}

/// A codec's test: the container, the codec with its options, and options for reading it.
fn codec_test(name: &str) -> Option<(&'static str, String, &'static str)> {
    let plain = |format, codec: &str| Some((format, codec.to_owned(), ""));
    match name {
        "alac" => return plain("mov", "alac -compression_level 1"),
        "flac" => return plain("flac", "flac -compression_level 2"),
        "flac-exact-rice" => return plain("flac", "flac -compression_level 2 -exact_rice_parameters 1"),
        "g723_1" => return plain("g723_1", "g723_1 -b:a 6.3k"),
        "mp2" => return plain("mp2", "mp2 -b:a 128k"),
        "mp2fixed" => return plain("mp2", "mp2fixed -b:a 384k"),
        "roqaudio" => return Some(("roq", "roq_dpcm -ar 22050".to_owned(), "-ar 44100")),
        "s302m" => return Some(("mpegts", "s302m -ar 48000 -strict -2".to_owned(), "-ar 44100")),
        "tta" => return plain("tta", "tta"),
        "wavpack" => return plain("wv", "wavpack -compression_level 1"),
        _ => {}
    }
    if let Some(kind) = name.strip_prefix("pcm-") {
        let format = match kind {
            _ if kind.ends_with("_planar") => "nut",
            _ if kind == "s8" || kind.starts_with('s') && kind.ends_with("be") => "mov",
            _ if kind == "u8" => "wav",
            _ if kind.starts_with('u') => "nut",
            _ if kind.starts_with('f') && kind.ends_with("be") => "au",
            _ => "wav",
        };
        return plain(format, &format!("pcm_{kind}"));
    }
    let (kind, options) = match name.strip_prefix("adpcm-")?.strip_suffix("-trellis") {
        Some(kind) => (kind, " -trellis 5"),
        None => (name.strip_prefix("adpcm-")?, ""),
    };
    let format = match kind {
        "adx" => "adx",
        "ima_qt" => "aiff",
        "ima_ssi" => "kvag",
        "swf" => "flv",
        _ => "wav",
    };
    plain(format, &format!("adpcm_{kind}{options}"))
}

/// `make fate-acodec`: what is made of its input, and what comes back, has the hash that its reference says.
#[test]
#[ignore = "its programs are compiled: `cargo xtask build --c-programs-wasi`"]
fn its_own_tests_of_codecs() {
    let mut tests = 0;
    for entry in fs::read_dir(part("tests/ffmpeg/tests/ref/acodec")).expect("a folder of the tests") {
        let test = entry.expect("an entry").file_name().into_string().expect("UTF-8");
        // A reference that no test of its has.
        let Some((format, codec, reading)) = codec_test(&test).filter(|_| test != "adpcm_ima_qt") else { continue };
        let input = if test == "g723_1" { "asynth-8000-1.wav" } else { "asynth-44100-2.wav" };
        let before = files([("in.wav", test_file(&format!("ffmpeg/tests/data/{input}")))]);
        let packed = format!("a.{format}");
        let (read, packed_at) = (["-f", "wav"], format!("/work/{packed}"));
        let codec = words(&codec);
        // Options of all codecs come before the one that a test has chosen.
        let write = [&["-b:a", "128k", "-c"][..], &codec, &EXACT, &["-f", format, &packed_at]].concat();
        let mut ran = ffmpeg(&[&read, &EXACT, &["-i", "/work/in.wav"], &write], &before).well();
        let made = ran.files.remove(&packed).expect("it was made");
        let before = files([(&*packed, made.0.clone())]);
        let write = [&["-c", "pcm_s16le"], &words(reading)[..], &EXACT, &["-f", "wav", "/work/out.wav"]].concat();
        let ran = ffmpeg(&[&EXACT, &["-i", &packed_at], &write], &before).well();
        let name = format!("tests/data/fate/acodec-{test}");
        let [hash, size] = hash_and_size(&format!("{name}.{format}"), &made.0);
        let [back, _] = hash_and_size(&format!("{name}.out.wav"), &ran.files["out.wav"].0);
        let reference = test_file(&format!("ffmpeg/tests/ref/acodec/{test}"));
        let reference = String::from_utf8_lossy(&reference);
        assert_eq!(reference.lines().take(3).collect::<Vec<_>>(), [hash, size, back], "{test}");
        tests += 1;
    }
    assert_eq!(tests, 48);
}

/// `make fate-lavf-audio`: the same for containers.
#[test]
#[ignore = "its programs are compiled: `cargo xtask build --c-programs-wasi`"]
fn its_own_tests_of_containers() {
    let tests = [
        ("aiff", "", "", ""),
        ("al", "", "", "-ar 44100"),
        ("ast", "-ac 2", "-loopstart 1 -loopend 10", ""),
        ("au", "", "", ""),
        ("caf", "", "", ""),
        ("ircam", "", "", ""),
        ("mka", "", "-c:a tta", ""),
        ("mmf", "", "", ""),
        ("ogg", "", "-c:a flac", ""),
        ("peak.wav", "", "-write_peak on", ""),
        ("peak_only.wav", "", "-write_peak only", ""),
        ("rso", "", "", ""),
        ("s16.voc", "-ac 2", "-c:a pcm_s16le", ""),
        ("sox", "", "", ""),
        ("tta", "", "", ""),
        ("ul", "", "", "-ar 44100"),
        ("voc", "", "-c:a pcm_u8", ""),
        ("w64", "", "", ""),
        ("wav", "", "", ""),
        ("wv", "", "", ""),
    ];
    let input = test_file("ffmpeg/tests/data/asynth1.sw");
    for (test, reading, writing, reading_back) in tests {
        let packed = format!("lavf.{test}");
        let packed_at = format!("/work/{packed}");
        let read = [&EXACT[..], &words(reading), &["-ar", "44100", "-f", "s16le", "-i", "/work/in.sw"]].concat();
        let write = ["-metadata", "title=lavftest", "-t", "1", "-qscale", "10"];
        let write = [&EXACT[..], &write, &words(writing), &[&packed_at]].concat();
        let mut ran = ffmpeg(&[&read, &write], &files([("in.sw", input.clone())])).well();
        let made = ran.files.remove(&packed).expect("it was made");
        let read = [&EXACT[..], &words(reading_back), &["-i", &packed_at, "-f", "crc", "-"]].concat();
        // A file with peaks alone has no sound to be read.
        let sum = ffmpeg(&[&read], &files([(&*packed, made.0.clone())]));
        let name = format!("tests/data/lavf/{packed}");
        let [hash, size] = hash_and_size(&name, &made.0);
        let sum = format!("{name} {}", sum.out.first().map_or("", String::as_str));
        let reference = test_file(&format!("ffmpeg/tests/ref/lavf/{test}"));
        let reference = String::from_utf8_lossy(&reference);
        let reference: Vec<_> = reference.lines().map(str::trim_end).collect();
        assert_eq!(reference, [hash.trim_end(), size.trim_end(), sum.trim_end()], "{test}");
    }
}

/// Codecs with losses, filters and other rates: the frames are the native program's.
#[test]
#[ignore = "its programs are compiled: `cargo xtask build --c-programs-wasi`"]
fn what_is_computed_is_the_same() {
    let before = files([("in.wav", test_file("ffmpeg/tests/data/asynth-44100-2.wav"))]);
    for filter in [
        "aresample=48000",
        "aresample=8000,volume=0.5",
        "atempo=1.5",
        "pan=mono|c0=0.5*c0+0.5*c1",
        "equalizer=f=1000:t=q:w=1:g=6,highpass=f=200,lowpass=f=8000",
        "aecho=0.8:0.9:60:0.3,afade=t=in:d=1",
        "acompressor=threshold=0.1:ratio=4,alimiter=limit=0.8",
        "asplit[a][b];[a]adelay=100|200[c];[b]areverse_is_none",
        "silenceremove=1:0:-40dB,chorus=0.5:0.9:50:0.4:0.25:2",
        "loudnorm",
    ] {
        let ran = ffmpeg(&[&["-i", "/work/in.wav", "-af", filter, "-bitexact", "-f", "framecrc", "-"]], &before);
        assert_eq!(ran.error.is_none(), !filter.contains("_is_none"), "{filter}: {ran:#?}");
    }
    let sine = "-filter_complex sine=frequency=440:duration=2,volume=0.25 -bitexact -f framemd5 -";
    assert!(ffmpeg(&[&words(sine)], &Files::new()).well().out.len() > 80);
    for (codec, file) in [("vorbis -strict -2", "a.ogg"), ("aac", "a.m4a.mov"), ("ac3", "a.ac3"), ("mp2", "a.mp2")] {
        let file_at = format!("/work/{file}");
        let write = [&["-ac", "2", "-c:a"][..], &words(codec), &["-b:a", "96k", "-bitexact", &file_at]].concat();
        let mut ran = ffmpeg(&[&["-i", "/work/in.wav"], &write], &before).well();
        ran.files.remove("in.wav");
        ffmpeg(&[&["-i", &file_at, "-bitexact", "-f", "framecrc", "-"]], &ran.files).well();
    }
}

#[test]
#[ignore = "its programs are compiled: `cargo xtask build --c-programs-wasi`"]
fn what_it_refuses() {
    let whole = test_file("ffmpeg/tests/data/asynth-44100-2.wav");
    let mut ran = ffmpeg(&[&["-i", "/work/a.wav", "/work/a.flac"]], &files([("a.wav", whole)])).well();
    let mut packed = ran.files.remove("a.flac").expect("it was made").0;
    let middle = packed.len() / 2;
    packed[middle] ^= 1;
    let damaged = files([("a.flac", packed.clone())]);
    let ran =
        ffmpeg(&[&["-xerror", "-err_detect", "crccheck+explode", "-i", "/work/a.flac", "-f", "null", "-"]], &damaged);
    assert!(ran.error.is_some(), "{ran:#?}");
    packed.truncate(middle);
    ffmpeg(&[&["-i", "/work/a.flac", "-f", "framecrc", "-"]], &files([("a.flac", packed)]));
    for parts in [
        &["-i", "/work/none.wav", "/work/a.flac"][..],
        &["-i", "/work/a.txt", "-f", "null", "-"],
        &["-i", "http://a.example/a.wav", "-f", "null", "-"],
        &["-i", "/work/a.txt", "-c:v", "libx264", "/work/a.mp4"],
        &["-frames:x", "1"],
    ] {
        let ran = ffmpeg(&[parts], &files([("a.txt", b"no sound".to_vec())]));
        assert!(ran.error.is_some(), "{parts:?}: {ran:#?}");
    }
}

#[test]
#[ignore = "its programs are compiled: `cargo xtask build --c-programs-wasi`"]
fn the_shipped_workflow_prints_the_sums_of_frames() {
    let printed = shipped("ffmpeg", None);
    assert!(printed[0].is_empty() && printed[1].is_empty(), "{printed:#?}");
    // Half a second at 16000 Hz, in one channel.
    assert!(printed[2].iter().any(|line| line == "#sample_rate 0: 16000"), "{printed:#?}");
    assert!(printed[2].iter().any(|line| line == "#channel_layout_name 0: mono"), "{printed:#?}");
}
