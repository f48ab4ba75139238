//! FFmpeg without pictures: its program `ffmpeg`, with the codecs, containers and filters of audio that its own tests know how to make inputs for.
//!
//! The version is the last of Debian's whose program works in one thread. From 5.1 on there is one for each file that it writes.

use super::{Files, Program};
use crate::source::Source;

/// The source, with its tests.
pub(super) const FFMPEG_SOURCE: Source = Source {
    name: "ffmpeg",
    version: "4.3.7",
    addresses: [
        "http://deb.debian.org/debian/pool/main/f/ffmpeg/ffmpeg_4.3.7.orig.tar.xz",
        "http://snapshot.debian.org/archive/debian/20261101T000000Z/pool/main/f/ffmpeg/ffmpeg_4.3.7.orig.tar.xz",
    ],
    sha256: "177d074943251bec33e1f9bc5979378ff5771882482ba9b3aee2cb18dd400554",
};

pub(super) const FFMPEG: Program = Program {
    name: "ffmpeg",
    source: &FFMPEG_SOURCE,
    besides: &[],
    before: &[
        "./configure --cc=\"$COMPILE\" --host-cc=\"$HOSTCC\" --enable-cross-compile --arch=generic --target-os=none --extra-cflags=-w \
         --disable-everything --disable-autodetect --disable-asm --disable-runtime-cpudetect --disable-pthreads --disable-network \
         --disable-doc --disable-debug --disable-large-tests --disable-ffplay --disable-ffprobe \
         --disable-avdevice --disable-swscale --disable-postproc \
         --enable-protocol=file,pipe,md5 \
         --enable-demuxer=aac,ac3,adx,aiff,ast,au,caf,ffmetadata,flac,flv,g723_1,ircam,kvag,matroska,mmf,mov,mp3,mpegts,nut,ogg,pcm_*,roq,rso,sox,tta,voc,w64,wav,wv \
         --enable-muxer=ac3,adts,adx,aiff,ast,au,caf,crc,ffmetadata,flac,flv,framecrc,framemd5,g723_1,hash,ircam,kvag,matroska_audio,md5,mmf,mov,mp2,mpegts,null,nut,ogg,pcm_*,roq,rso,sox,tta,voc,w64,wav,wv \
         --enable-encoder=aac,ac3,adpcm_*,alac,flac,g723_1,mp2,mp2fixed,pcm_*,roq_dpcm,s302m,tta,vorbis,wavpack \
         --enable-decoder=aac,ac3,adpcm_*,alac,flac,g723_1,mp2,mp3,opus,pcm_*,roq_dpcm,s302m,tta,vorbis,wavpack \
         --enable-parser=aac,ac3,flac,mpegaudio,opus,vorbis \
         --enable-filter=acompressor,acrossfade,adelay,aecho,aeval,aevalsrc,afade,aformat,alimiter,amerge,amix,anequalizer,anull,anullsrc,aphaser,aresample,asetnsamples,asetpts,asetrate,asplit,astats,atempo,atrim,bandpass,bass,biquad,channelmap,channelsplit,chorus,compand,concat,earwax,ebur128,equalizer,extrastereo,highpass,join,loudnorm,lowpass,pan,silencedetect,silenceremove,sine,stereotools,treble,tremolo,vibrato,volume,volumedetect",
        // Nothing of where it was compiled is in the program. What makes temporary files is in `missing.c`, of which it knows nothing.
        "sed -i -e 's/^#define FFMPEG_CONFIGURATION .*/#define FFMPEG_CONFIGURATION \"\"/' -e 's/HAVE_MKSTEMP 0/HAVE_MKSTEMP 1/' config.h",
        "make -j2 libavutil/libavutil.a libswresample/libswresample.a libavcodec/libavcodec.a libavformat/libavformat.a \
         libavfilter/libavfilter.a fftools/ffmpeg.o fftools/ffmpeg_opt.o fftools/ffmpeg_filter.o fftools/ffmpeg_hw.o fftools/cmdutils.o",
    ],
    files: Files::Made(&["libavutil", "libswresample", "libavcodec", "libavformat", "libavfilter", "fftools"]),
    flags: &[],
};

/// The input of its tests, which a program of theirs makes. Of the source only the tests are kept.
pub(super) const FFMPEG_INPUTS: &str = "gcc -O1 -w tests/audiogen.c -lm -o audiogen
    mkdir tests/data
    ./audiogen tests/data/asynth-44100-2.wav 44100 2
    ./audiogen tests/data/asynth-8000-1.wav 8000 1
    ./audiogen tests/data/asynth1.sw
    find . -mindepth 1 -maxdepth 1 ! -name tests -exec rm -r {} +";
