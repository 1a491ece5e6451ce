// A reload must open the object's page, not send the form again.
history.replaceState(null, "", document.currentScript.dataset.next);
