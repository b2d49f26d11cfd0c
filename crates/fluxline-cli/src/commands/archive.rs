//! `fluxline archive`: copies a finished run elsewhere, reads it back, and brings it back.

use std::path::Path;

use fluxline_archive::{Archived, Restored, Verified, Wanted};
use indicatif::{HumanBytes, ProgressBar};
use serde_json::json;

use crate::failure::{self, Ending, Failure};
use crate::output::escaped_line;
use crate::runs_arguments::ArchiveArguments;
use crate::{inform, say};

/// Archives, verifies or restores, as the arguments say.
pub fn archive(arguments: &ArchiveArguments, json: bool) -> Result<Ending, Failure> {
    let bar = crate::progress::bytes(0, json);
    let ending = match arguments {
        ArchiveArguments { verify: Some(target), .. } => verify(target, &bar, json),
        ArchiveArguments { restore: Some(target), to: Some(to), .. } => {
            restore(target, Path::new(to), &bar, json)
        }
        ArchiveArguments { run: Some(run), to: Some(to), .. } => {
            let (compress, remove_local) = (arguments.compress, arguments.remove_local);
            make(run, &Wanted { to, compress, remove_local }, &bar, json)
        }
        _ => Err(Failure::usage("give a run and --to TARGET, --verify, or --restore and --to.")),
    };
    bar.finish_and_clear();
    ending
}

/// Shows the progress of bytes on a bar.
fn shown_on(bar: &ProgressBar) -> impl FnMut(u64, u64) {
    let bar = bar.clone();
    move |bytes, all| {
        bar.set_length(all);
        bar.inc(bytes);
    }
}

fn make(run: &Path, wanted: &Wanted<'_>, bar: &ProgressBar, json: bool) -> Result<Ending, Failure> {
    let archived = fluxline_archive::archive(run, wanted, &mut shown_on(bar)).map_err(failure)?;
    bar.finish_and_clear();
    let Archived { target, files, bytes, stored_bytes, sent, left_out, removed } = archived;
    let target = escaped_line(&target);
    if json {
        super::print_json(&json!({
            "status": 0, "sentence": null, "run": run, "target": target, "files": files,
            "bytes": bytes, "stored_bytes": stored_bytes, "sent": sent, "left_out": left_out,
            "removed": removed,
        }));
        return Ok(Ending::Well);
    }
    say!(
        "{} is archived at {target}: {files} files, {} there, read back and equal; {sent} sent.",
        run.display(),
        HumanBytes(stored_bytes)
    );
    for name in &left_out {
        inform!("{} is not a regular file, and was left out.", escaped_line(name));
    }
    if removed > 0 {
        say!("{removed} local files were removed.");
    }
    Ok(Ending::Well)
}

fn verify(target: &str, bar: &ProgressBar, json: bool) -> Result<Ending, Failure> {
    let verified = fluxline_archive::verify(target, &mut shown_on(bar)).map_err(failure)?;
    bar.finish_and_clear();
    let Verified { target, run, files, bytes, faults } = verified;
    let damaged = faults.first().map(|first| {
        Failure::files(format_args!(
            "{} of {files} files of {target} are missing or damaged, the first: {first}; restore \
             them from another copy.",
            faults.len()
        ))
    });
    let print = || {
        if json {
            super::print_json(&json!({
                "status": failure::status_of(damaged.as_ref()),
                "sentence": damaged.as_ref().map(|damaged| &damaged.message),
                "target": target, "run": run, "files": files, "bytes": bytes, "faults": faults,
            }));
        } else if faults.is_empty() {
            let (run, size) = (escaped_line(&run), HumanBytes(bytes));
            say!("{target} is sound: {files} files of run {run}, {size}, have their check sums.");
        } else {
            faults.iter().for_each(|fault| say!("{}", escaped_line(fault)));
        }
    };
    Ok(failure::report(damaged.as_ref(), json, print))
}

fn restore(target: &str, to: &Path, bar: &ProgressBar, json: bool) -> Result<Ending, Failure> {
    let restored = fluxline_archive::restore(target, to, &mut shown_on(bar)).map_err(failure)?;
    bar.finish_and_clear();
    let Restored { target, folder, written, kept, bytes } = restored;
    if json {
        super::print_json(&json!({
            "status": 0, "sentence": null, "target": target, "folder": folder,
            "written": written, "kept": kept, "bytes": bytes,
        }));
        return Ok(Ending::Well);
    }
    let folder = folder.display();
    say!("{folder} has the {} files of {target}, {}.", written + kept, HumanBytes(bytes));
    say!("Next: fluxline inspect {folder}");
    Ok(Ending::Well)
}

fn failure(error: fluxline_archive::ArchiveError) -> Failure {
    use fluxline_archive::ArchiveError;

    match error {
        ArchiveError::Input(sentence) => Failure::input(sentence),
        ArchiveError::Files(sentence) => Failure::files(sentence),
        ArchiveError::Failed(sentence) => Failure::failed(sentence),
    }
}
