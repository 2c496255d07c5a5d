//! How the page looks: in light, in dark, on paper, on a narrow screen.

use std::fmt::Write;

use crate::chart::INKS;

/// What stands in `<style>`.
pub(super) fn sheet() -> String {
    let list = |dark: bool| {
        let mut list = String::new();
        for ink in &INKS {
            // Writing to a string does not fail.
            let _ = write!(
                list,
                "--{}:{};",
                ink.name,
                if dark { ink.dark } else { ink.light }
            );
        }
        list
    };
    let (light, dark) = (list(false), list(true));
    format!(
        ":root{{{light}--page:#FBFAF7;--raised:#FFFFFF;--link:#00568A;--good:#006B54;--part:#7A5000;--bad:#A84300}}\n\
         @media screen and (prefers-color-scheme:dark){{:root{{{dark}--page:#101317;--raised:#181C21;--link:#7CC4EE;--good:#2FBF95;--part:#E9B23F;--bad:#F0813A}}}}\n\
         {}",
        include_str!("style.css")
    )
}
