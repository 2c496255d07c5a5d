//! What is loaded into a program, and calls the kernel or the C library past this one.

use crate::in_every_way;

#[test]
fn plugins_that_are_to_prefer_what_they_need_themselves() {
    in_every_way("deepbind");
}
