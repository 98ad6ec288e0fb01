//! Disks whose flush takes a chosen time.
//!
//! `slow-disk DIRECTORY COUNT` serves the files DIRECTORY/images/0 and so on, each a formatted ext4, below
//! DIRECTORY/flushed, and mounts each of those through a loop device at DIRECTORY/disk0 and so on.  The kernel itself
//! reads and writes the images (FUSE passthrough).  A flush of a loop device arrives here as an fsync.  It takes the
//! chosen time, and is not passed on, so the time of the real disk does not add to it.
//!
//! A line on standard input chooses the time: "MICROSECONDS PER_MILLE SLOW_MICROSECONDS".  So many of a thousand flushes
//! take the slow time.  The answer on standard output is the same line.  The end of standard input, SIGTERM and SIGINT
//! end the program, and it unmounts what it mounted.

use std::ffi::OsStr;
use std::fs::{File, OpenOptions};
use std::io::{Error, Result, stdin};
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, UNIX_EPOCH};

use fuser::{
    BackingId, Config, Errno, FileAttr, FileHandle, FileType, Filesystem, FopenFlags, Generation, INodeNo, InitFlags,
    KernelConfig, OpenFlags, ReplyAttr, ReplyEmpty, ReplyEntry, ReplyOpen, Request,
};
use nix::mount::{MntFlags, umount2};
use nix::sys::prctl::set_timerslack;
use nix::sys::signal::{SigSet, Signal, kill};
use nix::unistd::Pid;

const ATTRIBUTES_LAST: Duration = Duration::from_secs(3600);
const FIRST_IMAGE: u64 = 2; // the inode of image 0; 1 is the directory

#[derive(Clone, Copy, Default)]
struct FlushTime {
    usual: Duration,
    slow_per_mille: u64,
    slow: Duration,
}

impl FlushTime {
    fn parsed(line: &str) -> Option<FlushTime> {
        let numbers: Vec<u64> = line.split_whitespace().map(str::parse).collect::<std::result::Result<_, _>>().ok()?;
        let [usual, slow_per_mille, slow] = numbers[..] else { return None };
        Some(FlushTime { usual: Duration::from_micros(usual), slow_per_mille, slow: Duration::from_micros(slow) })
    }

    /// The time of the flush with that number: random, but the same in every run.
    fn of(&self, number: u64) -> Duration {
        let mut mixed = number.wrapping_mul(0x9E37_79B9_7F4A_7C15); // splitmix64
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        if (mixed ^ (mixed >> 31)) % 1000 < self.slow_per_mille { self.slow } else { self.usual }
    }
}

struct Image {
    file: File,
    size: u64,
    backing: Mutex<Option<BackingId>>, // the kernel wants the same one for all openings
}

struct Images {
    images: Vec<Image>,
    flush_time: Arc<Mutex<FlushTime>>,
    flushes: AtomicU64,
}

impl Images {
    fn image(&self, inode: INodeNo) -> Option<&Image> {
        self.images.get(inode.0.checked_sub(FIRST_IMAGE)? as usize)
    }

    fn attributes(&self, inode: INodeNo) -> Option<FileAttr> {
        let (kind, size) = match self.image(inode) {
            Some(image) => (FileType::RegularFile, image.size),
            None if inode == INodeNo::ROOT => (FileType::Directory, 0),
            None => return None,
        };
        Some(FileAttr {
            ino: inode,
            size,
            blocks: size.div_ceil(512),
            atime: UNIX_EPOCH,
            mtime: UNIX_EPOCH,
            ctime: UNIX_EPOCH,
            crtime: UNIX_EPOCH,
            kind,
            perm: 0o700,
            nlink: 1,
            uid: 0,
            gid: 0,
            rdev: 0,
            blksize: 4096,
            flags: 0,
        })
    }
}

impl Filesystem for Images {
    fn init(&mut self, _: &Request, config: &mut KernelConfig) -> Result<()> {
        config.set_max_stack_depth(2).expect("what the kernel allows"); // 1, and 1 if the images are on an overlayfs
        let added = config.add_capabilities(InitFlags::FUSE_PASSTHROUGH);
        added.map_err(|_| Error::other("the kernel has no FUSE passthrough"))
    }

    fn lookup(&self, _: &Request, _: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let number = name.to_str().and_then(|name| name.parse::<u64>().ok());
        match number.and_then(|number| self.attributes(INodeNo(FIRST_IMAGE + number))) {
            Some(attributes) => reply.entry(&ATTRIBUTES_LAST, &attributes, Generation(0)),
            None => reply.error(Errno::ENOENT),
        }
    }

    fn getattr(&self, _: &Request, inode: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        match self.attributes(inode) {
            Some(attributes) => reply.attr(&ATTRIBUTES_LAST, &attributes),
            None => reply.error(Errno::ENOENT),
        }
    }

    fn open(&self, _: &Request, inode: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        let Some(image) = self.image(inode) else { return reply.error(Errno::ENOENT) };
        let mut backing = image.backing.lock().unwrap();
        if backing.is_none() {
            match reply.open_backing(&image.file) {
                Ok(opened) => *backing = Some(opened),
                Err(error) => return reply.error(error.into()),
            }
        }
        reply.opened_passthrough(FileHandle(0), FopenFlags::empty(), backing.as_ref().unwrap());
    }

    fn fsync(&self, _: &Request, _: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        let flush_time = *self.flush_time.lock().unwrap();
        let duration = flush_time.of(self.flushes.fetch_add(1, Ordering::Relaxed));
        if !duration.is_zero() {
            thread::sleep(duration);
        }
        reply.ok();
    }
}

fn read_flush_times(flush_time: &Mutex<FlushTime>) {
    for line in stdin().lines().map_while(Result::ok) {
        match FlushTime::parsed(&line) {
            Some(parsed) => {
                *flush_time.lock().unwrap() = parsed;
                println!("{line}");
            }
            None => eprintln!("not three numbers: {line}"),
        }
    }
}

fn main() -> std::result::Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().collect();
    let [_, directory, count] = &arguments[..] else { return Err("usage: slow-disk DIRECTORY COUNT".into()) };
    let (directory, count) = (Path::new(directory), count.parse::<usize>()?);
    let (flushed, disk) = (directory.join("flushed"), |number: usize| directory.join(format!("disk{number}")));

    let ending = SigSet::from_iter([Signal::SIGTERM, Signal::SIGINT]);
    ending.thread_block()?;
    set_timerslack(1)?; // in nanoseconds; the threads below inherit it

    let opened = |number: usize| -> Result<Image> {
        let file = OpenOptions::new().read(true).write(true).open(directory.join(format!("images/{number}")))?;
        Ok(Image { size: file.metadata()?.len(), file, backing: Mutex::new(None) })
    };
    let images = (0..count).map(opened).collect::<Result<_>>()?;
    let flush_time = Arc::new(Mutex::new(FlushTime::default()));
    let mut config = Config::default();
    config.n_threads = Some(count + 2); // a loop device has one flush at a time
    let served = Images { images, flush_time: flush_time.clone(), flushes: AtomicU64::new(0) };
    let _session = fuser::spawn_mount(served, &flushed, &config)?;

    let mount = |number: usize| -> Result<bool> {
        let image = flushed.join(number.to_string());
        let options = ["-t", "ext4", "-o", "loop,nodiscard"];
        Ok(Command::new("mount").args(options).arg(image).arg(disk(number)).status()?.success())
    };
    let mounted = (0..count).all(|number| mount(number).unwrap_or(false));
    if mounted {
        println!("mounted");
        let flush_time = flush_time.clone();
        thread::spawn(move || {
            read_flush_times(&flush_time);
            kill(Pid::this(), Signal::SIGTERM)
        });
        ending.wait()?;
    }
    *flush_time.lock().unwrap() = FlushTime::default();
    for number in 0..count {
        let _ = umount2(&disk(number), MntFlags::MNT_DETACH); // not mounted, if a mount above failed
    }
    umount2(&flushed, MntFlags::MNT_DETACH)?;
    if mounted { Ok(()) } else { Err("a disk cannot be mounted".into()) }
}
