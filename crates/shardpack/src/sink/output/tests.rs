use std::io::Read as _;

use super::*;

fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut out = OutputFile::create(path)?;
    out.write_all(bytes)?;
    out.finish(true)
}

fn names(folder: &Path) -> Vec<String> {
    let mut names: Vec<_> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

#[test]
fn a_regular_file_is_replaced_when_the_new_one_is_whole() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x");
    write(&path, b"old").unwrap();
    let mut out = OutputFile::create(&path).unwrap();
    out.write_all(b"new").unwrap();
    assert_eq!(fs::read(&path).unwrap(), b"old");
    assert_eq!(names(folder.path()).len(), 2);
    drop(out);
    assert_eq!(names(folder.path()), ["x"]);
    write(&path, b"new").unwrap();
    assert_eq!(fs::read(&path).unwrap(), b"new");
    assert_eq!(names(folder.path()), ["x"]);
}

#[test]
fn a_directory_and_a_name_of_none_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let error = OutputFile::create(folder.path()).unwrap_err();
    assert_eq!(error.to_string(), "is a directory; name a file in it");
    for bad in ["new/", "..", "/"] {
        assert!(OutputFile::create(&folder.path().join(bad)).is_err(), "{bad}");
    }
    assert!(OutputFile::create(&folder.path().join("no/such/x")).is_err());
    fs::write(folder.path().join("file"), "").unwrap();
    assert!(OutputFile::create(&folder.path().join("file/x")).is_err());
}

#[test]
fn descriptors_and_the_dash_are_streams() {
    for stdout in ["-", "/dev/stdout", "/dev/fd/1", "/proc/self/fd/1"] {
        assert_eq!(Destination::resolve(Path::new(stdout)).unwrap(), Destination::Stdout, "{stdout}");
    }
    for stream in ["/dev/stderr", "/dev/fd/7", "/proc/self/fd/12"] {
        let place = Destination::resolve(Path::new(stream)).unwrap();
        assert_eq!(place, Destination::Stream(stream.into()), "{stream}");
    }
    for file in ["/dev/fd/1x", "./-", "/proc/self/fdinfo-1"] {
        assert!(!matches!(Destination::resolve(Path::new(file)), Ok(Destination::Stdout)), "{file}");
    }
}

#[cfg(unix)]
mod unix {
    use std::os::unix::fs::{FileTypeExt as _, PermissionsExt as _, symlink};
    use std::process::Command;

    use super::*;

    #[test]
    fn behind_a_link_the_file_is_replaced_and_the_link_stays() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        fs::create_dir(at("below")).unwrap();
        fs::write(at("below/file"), "old").unwrap();
        symlink("below/file", at("link")).unwrap();
        symlink(at("link"), at("second")).unwrap();
        symlink("below/none", at("dangling")).unwrap();
        symlink("turns", at("turns")).unwrap();
        for link in ["link", "second"] {
            write(&at(link), link.as_bytes()).unwrap();
            assert_eq!(fs::read(at("below/file")).unwrap(), link.as_bytes());
        }
        write(&at("dangling"), b"made").unwrap();
        assert_eq!(fs::read(at("below/none")).unwrap(), b"made");
        assert!(["link", "second", "dangling"].iter().all(|link| at(link).is_symlink()));
        assert!(OutputFile::create(&at("turns")).is_err());
        assert_eq!(names(&at("below")), ["file", "none"]);
    }

    #[test]
    fn a_fifo_and_a_device_are_written_to_and_stay() {
        let folder = tempfile::tempdir().unwrap();
        let fifo = folder.path().join("fifo");
        assert!(Command::new("mkfifo").arg(&fifo).status().unwrap().success());
        symlink(&fifo, folder.path().join("link")).unwrap();
        for name in ["fifo", "link"] {
            let reader = std::thread::spawn({
                let fifo = fifo.clone();
                move || {
                    let mut bytes = Vec::new();
                    File::open(fifo).unwrap().read_to_end(&mut bytes).unwrap();
                    bytes
                }
            });
            write(&folder.path().join(name), name.as_bytes()).unwrap();
            assert_eq!(reader.join().unwrap(), name.as_bytes());
        }
        assert!(fifo.symlink_metadata().unwrap().file_type().is_fifo());
        write(Path::new("/dev/null"), b"gone").unwrap();
        assert!(write(Path::new("/dev/full"), b"no room").is_err());
        assert!(Path::new("/dev/null").metadata().unwrap().file_type().is_char_device());
        assert_eq!(names(folder.path()), ["fifo", "link"]);
    }

    #[test]
    fn what_takes_the_place_meanwhile_is_not_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x");
        let out = OutputFile::create(&path).unwrap();
        assert!(Command::new("mkfifo").arg(&path).status().unwrap().success());
        assert!(out.finish(false).is_err());
        assert!(path.symlink_metadata().unwrap().file_type().is_fifo());
        assert_eq!(names(folder.path()), ["x"]);
    }

    #[test]
    fn the_new_file_has_the_permissions_of_the_old_one() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x");
        fs::write(&path, "old").unwrap();
        for mode in [0o600, 0o664, 0o400] {
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
            write(&path, b"new").unwrap();
            assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, mode);
        }
    }
}

#[test]
fn what_a_killed_writer_left_is_removed_and_nothing_else() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let left = [".x.12-0.part", ".x.99-345.part"];
    let other = [
        ".x.part",
        ".x.12.part",
        ".x.a-1.part",
        ".x.1-.part",
        "x.12-0.part",
        ".y.12-0.part",
        ".x.12-0.parts",
    ];
    left.iter().chain(&other).for_each(|name| fs::write(at(name), "bytes").unwrap());
    fs::create_dir(at(".x.7-7.part")).unwrap();
    let at_work = OutputFile::create(&at("x")).unwrap();
    assert_eq!(remove_leftovers(&at("x"), |_| false), left.map(at));
    assert_eq!(remove_leftovers(&at("x"), |_| false), Vec::<PathBuf>::new());
    at_work.finish(false).unwrap();
    assert!(other.iter().all(|name| at(name).exists()) && at(".x.7-7.part").is_dir() && at("x").exists());
    assert_eq!(remove_leftovers(&at("x"), |name| name == "y"), [at(".y.12-0.part")]);
}

#[test]
fn a_long_name_has_a_temporary_name_that_fits() {
    let folder = tempfile::tempdir().unwrap();
    let name = "é".repeat(127);
    write(&folder.path().join(&name), b"x").unwrap();
    assert_eq!(names(folder.path()), [name.as_str()]);
    let out = OutputFile::create(&folder.path().join(&name)).unwrap();
    assert!(output_of_staged(&names(folder.path())[0]).is_some_and(|output| name.starts_with(output)));
    drop(out);
}
